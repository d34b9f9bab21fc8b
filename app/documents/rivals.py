"""Numbers and names of a statement that its source says of something else.

"The deposit is 1,250 euros" where the rent is 1,250 euros and the deposit 2,500: number and words are all there,
but another number stands with what the statement is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from octavo.app.documents.facts import Figure, figures
from octavo.app.documents.passages import Statement, context, said_by, words_in
from octavo.app.documents.question import covered, question_words

if TYPE_CHECKING:
    from octavo.app.documents.evidence import Source

_PART = re.compile(r"[,;](?=\s)|[，；、]|\b(?:and|but|und|sowie|aber|sondern)\b")
_SHORTEST_UNIT = 3  # letters
_NAME = re.compile(r"(?<=[\w,;:)] )(?!(?:EUR|USD|GBP|CHF)\b)[A-ZÄÖÜ][\w’'-]+")
_FIRST = re.compile(r"[\W_]*([A-ZÄÖÜ][\w’'-]+)\s+(\w+)")
_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|ein|eine|mit|von|für)\b")


@dataclass(frozen=True, slots=True)
class _Part:
    """A clause: its text, its numbers and, where not every noun is written so, its names."""

    text: str
    figures: tuple[Figure, ...]
    names: frozenset[str]


def names_of(text: str) -> list[str]:
    """Words inside the sentences of a text that begin with a capital."""
    return _NAME.findall(text)


def is_german(text: str) -> bool:
    """True where every noun begins with a capital."""
    return _GERMAN.search(text) is not None


def is_said_of_another(said: Statement, source: Source, others: Sequence[Source] = ()) -> bool:
    """Whether a number or name of the statement stands with less of it than a rival of the same kind does.

    A clause with the rival has to hold everything that the clause with the number holds, and more. Clauses of `others`
    are rivals, too; against those the whole source counts.
    """
    own = _parts(said_by(source))
    for piece in _parts((said.text,)):
        for fact in _facts(piece):
            words = set(re.findall(r"\w+", fact.casefold())) if isinstance(fact, str) else set()
            terms = tuple(term for term in words_in(piece.text) if term not in words)
            holding = [_held(terms, part) for part in own if _has(part, fact)]
            if not terms or not holding:
                continue
            if any(all(about > each for each in holding) for about in _rivals(piece, fact, own, terms)):
                return True
            holder = frozenset(covered(terms, context(source)))
            for other in others:
                stated = _parts(said_by(other)) if other is not source else ()
                if not any(_has(part, fact) for part in stated) and any(
                    about > holder for about in _rivals(piece, fact, stated, terms)
                ):
                    return True
    return False


def counts_something_else(said: Statement, source: Source) -> bool:
    """Whether a number counts what the source names elsewhere: "12,500 volunteers" where the stage costs 12,500."""
    sentences = said_by(source)
    for figure in said.figures:
        if figure.loose or len(figure.unit) < _SHORTEST_UNIT or not figure.unit.isalpha():
            continue
        places = [place for place, text in enumerate(sentences) if _states(text, figure)]
        beside = [" ".join(sentences[max(place - 1, 0) : place + 2]) for place in places]
        if beside and covered([figure.unit], sentences) and not covered([figure.unit], beside):
            return True
    return False


def has_another_name(said: Statement, source: Source) -> bool:
    """Whether the statement begins with a name, and the source says the same of another: "Boris repaired the chain"."""
    first = _FIRST.match(said.text)
    if first is None or is_german(said.text) or first[1].casefold() in question_words():
        return False
    name, after = first[1], first[2].casefold()
    text = " ".join(said_by(source))
    if name.casefold() in text.casefold() or after.isdigit():
        return False
    others = re.findall(rf"\b([A-ZÄÖÜ][\w’'-]+)\s+{re.escape(after)}\b", text)
    return any(other.casefold() not in question_words() for other in others)


def _facts(piece: _Part) -> Iterator[Figure | str]:
    yield from (figure for figure in piece.figures if not figure.loose)
    yield from piece.names


def _rivals(piece: _Part, fact: Figure | str, parts: Iterable[_Part], terms: Sequence[str]) -> Iterator[frozenset[str]]:
    """What the clauses hold of the terms that have a rival of a fact, and not itself."""
    for part in parts:
        if _has(part, fact):
            continue
        if isinstance(fact, str):
            rivals = bool(part.names - piece.names)
        else:
            rivals = any(each.unit == fact.unit and not _has(piece, each) for each in part.figures)
        if rivals:
            yield _held(terms, part)


def _states(text: str, figure: Figure) -> bool:
    return any(each.value == figure.value for each in figures(text))


def _has(part: _Part, fact: Figure | str) -> bool:
    if isinstance(fact, str):
        return bool(covered([fact.casefold()], [part.text]))
    return any(each.value == fact.value for each in part.figures)


def _held(terms: Sequence[str], part: _Part) -> frozenset[str]:
    return frozenset(covered(terms, [part.text]))


@lru_cache(maxsize=2048)
def _parts(texts: tuple[str, ...]) -> tuple[_Part, ...]:
    found = []
    for text in texts:
        has_names = not is_german(text)
        for part in [text] if "|" in text else _PART.split(text):
            names = frozenset(names_of(f"x {part.strip()}" if not text.startswith(part) else part)) if has_names else ()
            found.append(_Part(part, tuple(figures(part)), frozenset(names)))
    return tuple(found)
