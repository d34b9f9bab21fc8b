"""Requests about a document as a whole, such as "Summarise this": no passage holds their words, and all are meant."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from octavo.app.documents.evidence import Count, Evidence, LedgerRow, Source, row_of, shown, source_of
from octavo.app.documents.question import question_words
from octavo.app.documents.retrieve import Candidate

if TYPE_CHECKING:
    from octavo.storage.documents import Documents, StoredDocument

_MOST = 8  # passages
_WORD = re.compile(r"[\w;]+(?:[-'’]\w+)*")
_WIDE = re.compile("[\u3400-\u9fff]")
_ABOUT = re.compile(
    r"\bwhat(?:'s|’s|s| is| are| was| does)\b[^.?!]*\babout\b\W*$|\bworum\b[^.?!]*\b(?:geht|handelt)\b", re.IGNORECASE
)
_ABOUT_WORDS = frozenset({"geht", "handelt", "hier"})


def is_overview(question: str, names: Iterable[str] = ()) -> bool:
    """True if nothing but the documents themselves is asked about; `names` are what they are called."""
    kinds = _kinds()
    found: set[str] = set()
    text = question.casefold()
    for word, kind in _wide_words():
        if word in text:
            found.add(kind)
            text = text.replace(word, " ")
    if _WIDE.search(text):
        return False
    words = set(_WORD.findall(text))
    found |= {kind for kind, known in kinds.items() if words & known}
    named = {part for name in names for part in re.findall(r"\w+", name.casefold())}
    allowed = question_words() | named | set().union(*kinds.values())
    is_about = _ABOUT.search(question) is not None
    if is_about:
        allowed |= _ABOUT_WORDS
    if any(word not in allowed and not word.isdecimal() for word in words):
        return False
    if "cues" in found or is_about:
        return True
    return bool(("documents" in found or words & named) and "telling" in found and "details" not in found)


def spread(documents: Documents, among: Sequence[StoredDocument], budget: int, count: Count) -> Evidence:
    """Passages from the beginning to the end of the documents, as many as fit into `budget` tokens."""
    for most in range(_MOST, 0, -1):
        candidates = _spread(documents, among[:most], most)
        tokens = [count(shown(candidate)) for candidate in candidates]
        if sum(tokens) <= budget:
            break
    else:
        return Evidence((), ())
    sources: list[Source] = []
    rows: list[LedgerRow] = []
    for place, (candidate, size) in enumerate(zip(candidates, tokens, strict=True), start=1):
        sources.append(source_of(f"C{place}", candidate, candidate.chunk.text))
        rows.append(row_of(f"C{place}", candidate, "chosen", "of passages from beginning to end", size))
    return Evidence(tuple(sources), tuple(rows))


def _spread(documents: Documents, among: Sequence[StoredDocument], most: int) -> list[Candidate]:
    """At most so many chunks, the same number of each document, its first one among them."""
    owners: dict[int, StoredDocument] = {}
    for document in among:
        number = min(max(most // len(among), 1), document.num_chunks)
        for place in range(number):
            owners[document.first_chunk + place * document.num_chunks // number] = document
    chunks = documents.chunks(owners)
    return [Candidate(chunks[seq], document) for seq, document in owners.items() if chunks[seq].text.strip()]


@functools.cache
def _kinds() -> dict[str, frozenset[str]]:
    lines = resources.files("octavo.assets").joinpath("overview_words.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {kind: frozenset(words) for kind, *words in rows}


@functools.cache
def _wide_words() -> list[tuple[str, str]]:
    """Words of scripts without spaces with their kind, longest first; those that only ask have none."""
    wide = [(word, kind) for kind, words in _kinds().items() for word in words if _WIDE.search(word)]
    wide += [(word, "") for word in question_words() if _WIDE.search(word)]
    return sorted(wide, key=lambda item: len(item[0]), reverse=True)
