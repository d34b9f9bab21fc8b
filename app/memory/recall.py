"""Which memories an answer gets to see: what holds now, safety first, the most relevant for the tokens there are.

The block goes into the user's newest message, before its text, so that everything in front of it (system prompt,
documents, history) keeps its cached pages. The record of that message names the memories used, in order, and later
turns render the same block from them: the prompt only grows. A memory that was forgotten or taken back since is gone
from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from octavo.app.memory.candidates import NEAREST, Nearest, searched, words
from octavo.app.memory.claims import USER, Claim
from octavo.app.memory.concerns import concern
from octavo.app.memory.exposure import reach
from octavo.app.memory.fence import ends_of_sentences, fenced, is_safety, line
from octavo.app.memory.normalise import claims_of
from octavo.app.memory.own_words import LONGEST_TYPED, typed_text

if TYPE_CHECKING:
    from octavo.storage.memories import Memories
    from octavo.storage.memory_records import Memory

RECORD = "memories"  # key in the record of a question's message, and of its answer's: `Recall.document`
HALF_LIFE_DAYS = 180.0
FLOOR = 0.25  # decay ranks, it never erases
SAFETY_SHARE = 0.5  # of the budget, kept for safety facts
_LONG = 60  # tokens from which a memory is trimmed at a sentence
_NEAR = 0.28  # cosine from which a memory is about what the question is about; MiniLM gives others up to 0.16
_NOT_RELEVANT, _OVER_BUDGET = "not relevant", "over budget"


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory in the prompt: the text shown, its tokens, its score, and whether it is there for safety.

    `shown` characters of the memory's own text are in it, None for all of them; `note` is what we know of it besides.
    """

    memory: Memory
    text: str
    tokens: int
    score: float
    is_safety: bool
    shown: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Recall:
    """The memories for a question, in the order they stand in the block, and those left out, each with the reason."""

    used: tuple[Recalled, ...]
    left_out: tuple[tuple[Memory, str], ...]
    tokens: int = 0

    def document(self) -> dict[str, Any]:
        """For the record of the question's message, under `RECORD`: the ids in their order, how many characters are
        shown of those that were cut, notes of ours, the tokens of the block, and what was left out: by reason, ids,
        and of what is not relevant the number."""
        reasons: dict[str, Any] = {}
        for memory, reason in self.left_out:
            if reason != _NOT_RELEVANT:
                reasons.setdefault(reason, []).append(memory.id)
        idle = sum(reason == _NOT_RELEVANT for _, reason in self.left_out)
        return {
            "ids": [item.memory.id for item in self.used],
            "cut": {item.memory.id: item.shown for item in self.used if item.shown is not None},
            "notes": {item.memory.id: item.note for item in self.used if item.note},
            "tokens": self.tokens,
            "left_out": reasons | ({_NOT_RELEVANT: idle} if idle else {}),
        }


def today() -> date:
    """The day it is here."""
    return date.today()


def strength(memory: Memory, day: date) -> float:
    """From 1 (fresh) down to `FLOOR`, halved every `HALF_LIFE_DAYS`; safety facts and pinned ones do not fade."""
    if memory.pinned or is_safety(memory):
        return 1.0
    age = max((day - date.fromisoformat(memory.said[:10])).days, 0)
    return round(max(math.pow(0.5, age / HALF_LIFE_DAYS), FLOOR), 4)


def recall(
    memories: Memories,
    question: str,
    budget: int,
    count_tokens: Callable[[str], int],
    *,
    day: date | None = None,
    nearest: Nearest | None = None,
) -> Recall:
    """The memories for a question in at most `budget` tokens, fence and all; `count_tokens` counts a text's.

    Safety facts come first: those that concern the question whatever they take, others in a share that is theirs. The
    rest goes by relevance and freshness, and what is left over is for safety again.
    """
    day = day or today()
    valid = memories.list(day=day.isoformat())
    scores = _relevance(memories, valid, question, day, nearest)
    notes = {m.id: concern(Claim.from_document(m.claim), question) for m in valid if is_safety(m)}
    safe = sorted((m for m in valid if m.id in notes), key=lambda m: (not notes[m.id], -scores.get(m.id, 0.0)))
    fading = {m.id: scores.get(m.id, 0.0) * strength(m, day) for m in valid if m.id not in notes}
    others = sorted((m for m in valid if m.id in fading), key=lambda m: -fading[m.id])
    picked = _Picked(budget - count_tokens(fenced([("", True), ("", False)])), count_tokens)
    share = int(picked.room * SAFETY_SHARE)
    waiting = []
    for memory in safe:
        room = picked.room if notes[memory.id] else share
        spent = picked.take(memory, room, scores.get(memory.id, 0.0), notes[memory.id])
        share -= spent or 0
        waiting += [memory] * (spent is None)
    for memory in others:
        if fading[memory.id] <= 0.0:
            picked.left_out.append((memory, _NOT_RELEVANT))
        elif picked.take(memory, picked.room, fading[memory.id]) is None:
            picked.left_out.append((memory, _OVER_BUDGET))
    for memory in waiting:
        if picked.take(memory, picked.room, scores.get(memory.id, 0.0), notes[memory.id]) is None:
            picked.left_out.append((memory, _OVER_BUDGET))
    tokens = count_tokens(fenced((item.text, item.is_safety) for item in picked.used)) if picked.used else 0
    return Recall(tuple(picked.used), tuple(picked.left_out), tokens)


class _Picked:
    """Memories picked one after the other while there is `room`, in tokens."""

    def __init__(self, room: int, count_tokens: Callable[[str], int]) -> None:
        self.room = room
        self.used: list[Recalled] = []
        self.left_out: list[tuple[Memory, str]] = []
        self._count_tokens = count_tokens
        self._said: set[str] = set()

    def take(self, memory: Memory, room: int, score: float, note: str = "") -> int | None:
        """The tokens it took of at most `room`, None if it does not fit; 0 for what was said already."""
        key = Claim.from_document(memory.claim).key() if memory.slot else memory.text.casefold()
        if key in self._said or memory.text in self._said:
            self.left_out.append((memory, "said already"))
            return 0
        text, tokens, shown = _trimmed(memory, note, min(room, self.room), self._count_tokens)
        if not text:
            return None
        self._said.update((key, memory.text))
        self.used.append(Recalled(memory, text, tokens, round(score, 4), is_safety(memory), shown, note))
        self.room -= tokens
        return tokens


def _relevance(
    memories: Memories, valid: Sequence[Memory], question: str, day: date, nearest: Nearest | None
) -> dict[str, float]:
    """From 0 to about 2: shared words and concepts, closeness of meaning, and a little for being about the person.

    Of a long question only what was typed around a paste counts: reading all of it would take seconds.
    """
    scores: dict[str, float] = {}
    if not valid:
        return scores
    question = typed_text(question) if len(question) > LONGEST_TYPED else question
    about = claims_of(question, day)
    text = " ".join([words(question), *(searched(claim, "") for claim in about)])
    found = memories.search(text, day.isoformat(), max(len(valid), 1))
    best = max((score for _, score in found), default=1.0) or 1.0
    for memory, score in found:
        scores[memory.id] = score / best
    if nearest is not None:
        for memory_id, cosine in nearest.nearest(question, [memory.id for memory in valid], NEAREST):
            if cosine >= _NEAR:
                scores[memory_id] = scores.get(memory_id, 0.0) + cosine
    asked = {concept for claim in about for concept in reach(claim)}
    for memory in valid:
        if asked & reach(Claim.from_document(memory.claim)):
            scores[memory.id] = scores.get(memory.id, 0.0) + 0.5
        if memory.subject == USER and memory.slot in ("name", "job", "home"):
            scores[memory.id] = scores.get(memory.id, 0.0) + 0.05
    return scores


def _trimmed(memory: Memory, note: str, room: int, count_tokens: Callable[[str], int]) -> tuple[str, int, int | None]:
    """The memory's line, its tokens, and where it was cut: at the end of a sentence, where it is long; "" if nothing
    fits."""
    whole = line(memory, None, note)
    tokens = count_tokens(whole + "\n")
    if tokens <= min(room, _LONG):
        return whole, tokens, None
    for end in ends_of_sentences(memory.text):
        shortened = line(memory, end, note)
        cost = count_tokens(shortened + "\n")
        if cost <= min(room, _LONG):
            return shortened, cost, end
    return (whole, tokens, None) if tokens <= room else ("", 0, None)
