"""Which old memories a new claim is compared with: those of its slot, all that guard it, and the nearest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Protocol

from octavo.app.memory.claims import Claim
from octavo.app.memory.exposure import reach
from octavo.app.memory.slots import load_slots

if TYPE_CHECKING:
    from octavo.storage.memories import Memories
    from octavo.storage.memory_records import Memory

NEAREST = 8
_STOP = frozenset(
    [
        "i",
        "me",
        "my",
        "we",
        "our",
        "the",
        "a",
        "an",
        "and",
        "or",
        "but",
        "of",
        "to",
        "in",
        "on",
        "at",
        "for",
        "with",
        "is",
        "are",
        "am",
        "was",
        "were",
        "be",
        "been",
        "have",
        "has",
        "had",
        "do",
        "does",
        "did",
        "not",
        "no",
        "it",
        "its",
        "this",
        "that",
        "user",
        "user's",
        "you",
        "your",
        "as",
        "so",
        "very",
        "really",
        "also",
        "now",
        "than",
        "then",
        "them",
        "they",
        "he",
        "she",
        "his",
        "her",
        "from",
        "by",
        "about",
        "just",
    ]
)
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")


class Nearest(Protocol):
    """Finds memories by meaning; the embedder's side of the search."""

    def nearest(self, text: str, memory_ids: Sequence[str], limit: int) -> Sequence[tuple[str, float]]:
        """Up to `limit` of the ids that have a vector, with their cosine to `text`, the nearest first."""

    def fill(self, memory_ids: Sequence[str]) -> object:
        """Make the vectors of memories that have none."""


def words(text: str) -> str:
    """The words of a text that say something, for a search."""
    return " ".join(word for word in _WORD.findall(text.casefold()) if word not in _STOP)


def searched(claim: Claim, text: str) -> str:
    """What to look for: the words of the text, and everything its things are and contain."""
    return f"{words(text)} {' '.join(sorted(reach(claim))).replace('_', ' ')}"


def candidates(
    memories: Memories, claim: Claim, text: str, today: date, nearest: Nearest | None = None
) -> list[Memory]:
    """The memories valid today that a new claim may not fit, each once."""
    day = today.isoformat()
    slots = load_slots()
    own = slots.of(claim.slot)
    related = [claim.slot.partition(":")[0]] if claim.slot else []
    if own.exposure or claim.base_slot in ("do", "count", "owns", "family", "dose"):
        related += [slot.name for slot in slots.by_name.values() if slot.guards]
    if own.guards:
        related += [slot.name for slot in slots.by_name.values() if slot.exposure]
    if claim.base_slot in ("count", "owns", "family"):
        related += ["count", "owns", "family"]
    for pair in ({"marital", "family"}, {"can", "commute"}, {"can", "hobby"}, {"can", "preference"}):
        if claim.base_slot in pair:
            related += pair
    found: dict[str, Memory] = {}
    if related:
        for memory in memories.in_slots(claim.subject, sorted(set(related)), day):
            found[memory.id] = memory
    for memory, _ in memories.search(searched(claim, text), day, NEAREST):
        found.setdefault(memory.id, memory)
    if nearest is not None:
        valid = {memory.id: memory for memory in memories.list(day=day)}
        for memory_id, _ in nearest.nearest(text, list(valid), NEAREST):
            found.setdefault(memory_id, valid[memory_id])
    return list(found.values())
