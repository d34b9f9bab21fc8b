"""Citations checked by code: the ids exist, and what a sentence states occurs in the chunk that it cites."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from octavo.app.documents.question import covered, terms_of
from octavo.app.documents.sentences import sentences

if TYPE_CHECKING:
    from octavo.app.documents.evidence import Source

_MARK = re.compile(r"\s*\[\s*(C\d+(?:\s*[,;]\s*C\d+)*)\s*\]")
_ID = re.compile(r"C\d+")
_NUMBER = re.compile(r"\d+(?:[.,:/\-]\d+)*")
_NAME = re.compile(r"(?<=[\w,;:)] )[A-ZÄÖÜ][\w’'-]+")
_ENOUGH = 0.5  # share of a sentence's words that its chunk has to hold
_FEW = 3  # sources that may bear a sentence of a summary out together
_NAMES = 0.6  # share of capitalised words, where every noun is written so
_NEGATION = re.compile(
    r"\b(?:not|no)\b(?!\.| only| later| more| less| fewer)|\b(?:cannot|never|nicht|kein\w*|nie|niemals)\b|n['’]t\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:]|\b(?:but|aber|sondern)\b")
_MOST = 0.75  # share of a statement's words that a clause has to hold before it can deny it
_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|ein|eine|mit|von|für)\b")


class Entailment(Protocol):
    """Says whether a premise entails a statement."""

    def entails(self, premise: str, statement: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence's source: `quote` is text[start:end] of the document, on `page`; `sentence` says what cites it."""

    id: str
    document: str
    page: int | None
    start: int
    end: int
    quote: str
    supported: bool
    sentence: str
    by_model: bool

    def as_json(self) -> dict[str, Any]:
        """The citation in values that JSON has."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer's sentences with their citations. `unsupported` are those that no source bears out."""

    text: str
    citations: tuple[Citation, ...]
    unsupported: tuple[str, ...]
    num_sentences: int
    unknown_ids: tuple[str, ...]

    @property
    def num_supported(self) -> int:
        return self.num_sentences - len(self.unsupported)


def check(
    answer: str, sources: Sequence[Source], entailment: Entailment | None = None, *, together: bool = False
) -> Checked:
    """Check each sentence of an answer against the sources it cites.

    Ids that do not exist are taken out of the text. A sentence without an id gets the source that bears it out, if
    there is one; with `together`, as in a summary, a few sources may bear it out that do not by themselves. Sentences
    that no source bears out are marked in the text.
    """
    known = {source.id: source for source in sources}
    pieces: list[str] = []
    citations: list[Citation] = []
    unsupported: list[str] = []
    unknown: dict[str, None] = {}
    spans = _spans(answer)
    for start, end in spans:
        raw = answer[start:end]
        statement = _MARK.sub("", raw).strip()
        given = [name for match in _MARK.finditer(raw) for name in _ID.findall(match[1])]
        unknown |= dict.fromkeys(name for name in given if name not in known)
        cited = [known[name] for name in dict.fromkeys(given) if name in known]
        if not any(map(str.isalnum, statement)):
            continue
        bearing = [source for source in cited or sources if supports(source, statement, entailment)]
        if not cited:
            bearing = _nearest(bearing, statement) or (_together(sources, statement, entailment) if together else [])
        made = [_citation(source, statement, source in bearing, bool(cited)) for source in cited or bearing]
        citations += made
        if not bearing:
            unsupported.append(statement)
        names = "".join(f" [{citation.id}]" for citation in made)
        pieces.append(_placed(statement, names) + ("" if bearing else " [unsupported]"))
    return Checked(" ".join(pieces), tuple(citations), tuple(unsupported), len(pieces), tuple(unknown))


def supports(source: Source, statement: str, entailment: Entailment | None = None) -> bool:
    """True if the numbers, dates, names and most words of a statement occur in the source."""
    evidence = " ".join((*source.headings, source.head, source.text, source.document.name))
    figures = set(map(_plain, _NUMBER.findall(evidence)))
    if any(_plain(number) not in figures for number in _NUMBER.findall(statement)):
        return False
    names = _NAME.findall(statement)
    held = len(covered([name.casefold() for name in names], [evidence]))
    if held < len(names) * (_NAMES if _GERMAN.search(statement) else 1.0):
        return False
    terms = terms_of(statement)
    if len(covered(terms, [evidence])) < _ENOUGH * len(terms) or not covered(terms, [source.text]):
        return False
    if _is_denied(source, statement, terms):
        return False
    return entailment is None or entailment.entails(source.text, statement)


def _nearest(bearing: Sequence[Source], statement: str) -> list[Source]:
    """The one of them with the sentence that shares most with the statement, the first of equals; none of none."""
    terms = terms_of(statement)

    def shared(source: Source) -> tuple[int, int]:
        said = [source.text[slice(*span)] for span in sentences(source.text)]
        return max((len(covered(terms, [each])) for each in said), default=0), len(covered(terms, [source.text]))

    return [max(bearing, key=shared)] if bearing else []


def _together(sources: Sequence[Source], statement: str, entailment: Entailment | None) -> list[Source]:
    """Few sources that bear a statement out as if they were one; empty if they do not."""
    left = terms_of(statement)
    chosen: list[Source] = []
    while left and len(chosen) < _FEW:
        held = {source.id: covered(left, [source.text]) for source in sources if source not in chosen}
        best = max(sources, key=lambda source: len(held.get(source.id, ())))
        if not held.get(best.id):
            break
        chosen.append(best)
        left = [term for term in left if term not in held[best.id]]
    if len(chosen) < 2:
        return []
    headings = tuple(heading for source in chosen for heading in source.headings)
    one = replace(chosen[0], text="\n\n".join(source.text for source in chosen), headings=headings)
    return chosen if supports(one, statement, entailment) else []


def _is_denied(source: Source, statement: str, terms: Sequence[str]) -> bool:
    """Whether every clause of the source that says most of a statement denies what it says, or says what it denies.

    In English and German. Two negations in one clause are left to a model that understands them.
    """
    said = [clause for span in sentences(source.text) for clause in _CLAUSE.split(source.text[slice(*span)])]
    near = [clause for clause in said if len(covered(terms, [clause])) >= _MOST * len(terms)]
    denies = len(_NEGATION.findall(statement))
    found = [len(_NEGATION.findall(clause)) for clause in near]
    return denies < 2 and bool(found) and all(count < 2 and count != denies for count in found)


def _plain(number: str) -> str:
    """1,000 and 1.000 and 1000 are one number, so are 3.50 and 3,50."""
    return re.sub(r"[.,](?=\d{3}(?:\D|$))", "", number).replace(",", ".")


def _citation(source: Source, statement: str, is_supported: bool, by_model: bool) -> Citation:
    terms = terms_of(statement)
    spans = sentences(source.chunk) or [(0, len(source.chunk))]
    # The sentence of the chunk that shares most with the statement.
    start, end = max(spans, key=lambda span: len(covered(terms, [source.chunk[slice(*span)]])))
    quote, page = source.chunk[start:end], _page(source, source.start + start)
    place = (source.start + start, source.start + end)
    return Citation(source.id, source.document.id, page, *place, quote, is_supported, statement, by_model)


def _page(source: Source, place: int) -> int | None:
    pages = source.document.pages
    return sum(start <= place for start in pages) if pages else None


def _spans(answer: str) -> list[tuple[int, int]]:
    """Sentences, each with the marks that follow its full stop."""
    spans: list[tuple[int, int]] = []
    for start, end in sentences(answer):
        match = _MARK.match(answer, start)
        if spans and match is not None:
            spans[-1] = (spans[-1][0], match.end())
            start = match.end()
        if answer[start:end].strip():
            spans.append((start, end))
    return spans


def _placed(statement: str, names: str) -> str:
    """The names before the full stop."""
    match = re.search(r"[.!?。！？]+[\"'”’»)]*$", statement)
    return statement[: match.start()] + names + match[0] if match is not None and names else statement + names
