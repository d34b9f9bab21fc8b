"""What a source says, in pieces: sentences, lines of tables and code, and what each has in common with a statement."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from octavo.app.documents.facts import Figure, figures
from octavo.app.documents.question import covered, terms_of
from octavo.app.documents.sentences import sentences

if TYPE_CHECKING:
    from octavo.app.documents.evidence import Source

_NEXT, _ELSEWHERE = 0.4, 0.2  # credit for a word that the sentences beside hold, or the rest of the chunk
_FIGURE = 2.0  # weight of a number, that of a word being about one
_PAIR = 0.2  # of two words that stand side by side in both
_EXACT = 0.3  # for a passage that says nothing else
_WORD = re.compile(r"\w+")
_CELLS = re.compile(r"\||\t")
_ROW = re.compile(r"^\s*(?:[-*•|+>]|\d+[.)]\s)|\||\t")


@dataclass(frozen=True)
class Statement:
    """A sentence of an answer: its words that say something without numbers, its numbers, its pairs of words."""

    text: str

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figures(self.text))

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return words_in(self.text)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return _pairs(self.text)


@dataclass(frozen=True, slots=True)
class Passage:
    """chunk[start:end] of a source, and how much of a statement it holds."""

    source: Source
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        return self.source.chunk[self.start : self.end]


@lru_cache(maxsize=4096)
def words_in(text: str) -> tuple[str, ...]:
    """The words of a text that say something, numbers left out."""
    said = {figure_word for figure in figures(text) for figure_word in _WORD.findall(text[figure.start : figure.end])}
    folded = {word.casefold() for word in said}
    return tuple(term for term in terms_of(text) if term not in folded)


def weights(statement: Statement, sources: Sequence[Source]) -> dict[str, float]:
    """How much each word of the statement tells these sources apart."""
    counts = dict.fromkeys(statement.terms, 0)
    for source in sources:
        for term in covered(statement.terms, context(source)):
            counts[term] += 1
    return {term: math.log(1 + (len(sources) + 1) / (1 + count)) for term, count in counts.items()}


def best_passage(statement: Statement, source: Source, weight: Mapping[str, float]) -> Passage:
    """The passage of a source that says most of a statement."""
    spans = spans_of(source)
    texts = [source.chunk[start:end] for start, end in spans]
    held = [set(covered(statement.terms, [text])) for text in texts]
    known = [_values(text) for text in texts]
    around = set(covered(statement.terms, context(source)))
    anywhere = frozenset().union(*known, *map(_values, (*source.headings, source.head)))
    best = Passage(source, *spans[0], -1.0)
    for place, span in enumerate(spans):
        beside = [each for each in (place - 1, place + 1) if 0 <= each < len(spans)]
        score = 0.0
        for term in statement.terms:
            if term in held[place]:
                score += weight[term]
            elif any(term in held[each] for each in beside):
                score += _NEXT * weight[term]
            elif term in around:
                score += _ELSEWHERE * weight[term]
        for figure in statement.figures:
            if figure.value in known[place]:
                score += _FIGURE
            elif any(figure.value in known[each] for each in beside):
                score += _NEXT * _FIGURE
            elif figure.value in anywhere:
                score += _ELSEWHERE * _FIGURE
        pairs = _pairs(texts[place])
        score += _PAIR * len(pairs & statement.pairs)
        score += _EXACT * len(held[place]) / max(len(words_in(texts[place])), 1)
        if score > best.score:
            best = Passage(source, *span, score)
    return best


def spans_of(source: Source) -> list[tuple[int, int]]:
    """The sentences of a source's chunk that the model saw, rows and lines of code each for themselves."""
    return [(start, end) for start, end, _ in _spans(source.chunk, source.text, _solid(source))]


def said_by(source: Source) -> tuple[str, ...]:
    """The sentences of a source without its code; a row with the header of its table."""
    head = source.head
    found: list[str] = []
    for start, end, is_line in _spans(source.chunk, source.text, _solid(source)):
        text = source.chunk[start:end]
        if not is_line:
            found.append(text)
        elif _CELLS.search(text):
            found.append(f"{head} | {text}" if head else text)
            head = head or text
    return tuple(found)


def _solid(source: Source) -> tuple[tuple[int, int], ...]:
    """Where code and tables are in a source's chunk."""
    return tuple(
        (start - source.start, end - source.start)
        for start, end in source.document.solid
        if start < source.end and end > source.start
    )


@lru_cache(maxsize=1024)
def _spans(chunk: str, seen: str, solid: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int, bool], ...]:
    """Start and end of each sentence, or of each line where text is written in lines."""
    found: list[tuple[int, int, bool]] = []
    for start, end in sentences(chunk):
        is_solid = any(first < end and last > start for first, last in solid)
        lines = [line for line in chunk[start:end].splitlines() if line.strip()]
        if is_solid or (len(lines) > 1 and sum(_ROW.search(line) is not None for line in lines) * 2 >= len(lines)):
            place = start
            for line in lines:
                place = chunk.index(line, place)
                found.append((place + len(line) - len(line.lstrip()), place + len(line.rstrip()), True))
                place += len(line)
        else:
            found.append((start, end, False))
    shown = found if seen == chunk else [span for span in found if chunk[slice(*span[:2])] in seen]
    return tuple(shown or found or [(0, len(chunk), False)])


def context(source: Source) -> tuple[str, ...]:
    """Everything that stands with a source: its headings, its table's header, its text, its document's name."""
    return (*source.headings, source.head, source.text, source.document.name)


@lru_cache(maxsize=4096)
def _values(text: str) -> frozenset[str]:
    return frozenset(figure.value for figure in figures(text))


@lru_cache(maxsize=4096)
def _pairs(text: str) -> frozenset[tuple[str, str]]:
    words = _WORD.findall(text.casefold())
    return frozenset(pairwise(words))
