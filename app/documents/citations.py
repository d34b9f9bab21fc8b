"""Citations checked by code: the ids exist, and what a sentence states is said where it is cited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from octavo.app.documents.passages import Passage, Statement, best_passage, weights
from octavo.app.documents.question import covered, terms_of
from octavo.app.documents.sentences import sentences
from octavo.app.documents.support import Entailment, supports

if TYPE_CHECKING:
    from octavo.app.documents.evidence import Source

_MARK = re.compile(r"\s*\[\s*(C\d+(?:\s*[,;]\s*C\d+)*)\s*\]")
_ID = re.compile(r"C\d+")
_ASKS = re.compile(r"[?？؟][\"'”’»)」』]*$")
_FEW = 3  # sources that may bear a sentence of a summary out together, or are named where they say the same
_LOOKED_AT = 12  # sources that are asked whether they bear a sentence out, the likeliest first
_EQUAL = 0.98  # of the best score: what comes so near says it as well
_BETTER = 1.3  # times the score of the source that the model named: then another one is meant


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence's source: `quote` is text[start:end] of the document, on `page`; `sentence` says what cites it.

    `by_model` where the model named the source; `tied` where others say the same as well.
    """

    id: str
    document: str
    page: int | None
    start: int
    end: int
    quote: str
    supported: bool
    sentence: str
    by_model: bool
    tied: bool = False

    def as_json(self) -> dict[str, Any]:
        """The citation in values that JSON has."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer's sentences with their citations; `num_sentences` state something. `unsupported` are those of them that
    no source bears out."""

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

    Ids that do not exist are taken out of the text. A sentence without an id, and one whose source does not bear it
    out, gets the source that says it best, or the few that say it equally well; with `together`, as in a summary, a few
    sources may bear it out that do not by themselves. Sentences that no source bears out are marked in the text; those
    that ask state nothing and stay as they are.
    """
    known = {source.id: source for source in sources}
    pieces: list[str] = []
    citations: list[Citation] = []
    unsupported: list[str] = []
    unknown: dict[str, None] = {}
    num_stating = 0
    for start, end in _spans(answer):
        raw = answer[start:end]
        statement = _MARK.sub("", raw).strip()
        given = [name for match in _MARK.finditer(raw) for name in _ID.findall(match[1])]
        unknown |= dict.fromkeys(name for name in given if name not in known)
        cited = [known[name] for name in dict.fromkeys(given) if name in known]
        if not any(map(str.isalnum, statement)):
            continue
        if _ASKS.search(statement) is not None:
            pieces.append(statement)
            continue
        num_stating += 1
        made = _Attribution(sources, statement, entailment).cite(cited, together=together)
        citations += made
        is_supported = any(citation.supported for citation in made)
        if not is_supported:
            unsupported.append(statement)
        names = "".join(f" [{citation.id}]" for citation in made)
        pieces.append(_placed(statement, names) + ("" if is_supported else " [unsupported]"))
    return Checked(" ".join(pieces), tuple(citations), tuple(unsupported), num_stating, tuple(unknown))


class _Attribution:
    """One statement and where it comes from."""

    def __init__(self, sources: Sequence[Source], text: str, entailment: Entailment | None) -> None:
        self._sources, self._text, self._entailment = sources, text, entailment
        self._statement = Statement(text)
        self._weights = weights(self._statement, sources)
        ranked = sorted(map(self._passage, sources), key=lambda passage: -passage.score)
        self._ranked = ranked[:_LOOKED_AT]

    def cite(self, named: Sequence[Source], *, together: bool) -> list[Citation]:
        """Citations of the sources that bear the statement out, or else of those that the model `named`."""
        passages = {source.id: self._passage(source) for source in named}
        bearing = [source for source in named if self._is_borne_out_by(source)]
        found = self._best()
        least = max((passages[source.id].score for source in bearing), default=0.0)
        if found and (not bearing or found[0].score > _BETTER * least):
            return [self._citation(each, supported=True, tied=len(found) > 1) for each in found[:_FEW]]
        if named:
            return [self._citation(passages[source.id], supported=source in bearing, by_model=True) for source in named]
        joined = _together(self._sources, self._text, self._entailment) if together else []
        return [self._citation(self._passage(source), supported=True) for source in joined]

    def _best(self) -> list[Passage]:
        """The passages that say the statement best and bear it out: one, or several that no evidence tells apart."""
        found: list[Passage] = []
        for passage in self._ranked:
            if found and passage.score < _EQUAL * found[0].score:
                break
            if self._is_borne_out_by(passage.source):
                found.append(passage)
        return found

    def _is_borne_out_by(self, source: Source) -> bool:
        return supports(source, self._text, self._entailment, [passage.source for passage in self._ranked])

    def _passage(self, source: Source) -> Passage:
        return best_passage(self._statement, source, self._weights)

    def _citation(self, passage: Passage, *, supported: bool, by_model: bool = False, tied: bool = False) -> Citation:
        source = passage.source
        start, end = source.start + passage.start, source.start + passage.end
        page = _page(source, start)
        return Citation(
            source.id, source.document.id, page, start, end, passage.text, supported, self._text, by_model, tied
        )


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
    text, seen = ("\n\n".join(part) for part in zip(*((each.chunk, each.text) for each in chosen), strict=True))
    headings = tuple(heading for source in chosen for heading in source.headings)
    one = replace(chosen[0], text=seen, chunk=text, headings=headings)
    return chosen if supports(one, statement, entailment) else []


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
