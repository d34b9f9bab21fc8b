"""What `octavo bench retrieval` measures of citations: sentences without an id, and sentences with a wrong number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.app.cli.bench_retrieval import Question
    from octavo.app.documents.evidence import Source
    from octavo.app.documents.retrieve import Candidate
    from octavo.storage.documents import Documents, StoredDocument


@dataclass(frozen=True, slots=True)
class Citing:
    """Counts of good ones and of all: citations with a right id and span; sentences without an id whose citations are
    the passage that holds the answer and no other; sentences with another number of the document that were marked.
    """

    valid: tuple[int, int] = (0, 0)
    attributed: tuple[int, int] = (0, 0)
    marked: tuple[int, int] = (0, 0)


def citing(documents: Documents, question: Question, candidates: Sequence[Candidate]) -> Citing:
    """Sentences that answer the question, cited from what was found for it and from the whole of its document."""
    from octavo.app.documents.evidence import gather

    found = gather(question.text, candidates, 1200, lambda text: len(text) // 4 + 1).sources
    valid = _valid(documents, question, found)
    if not question.answer:
        return Citing(valid)
    (document,) = (one for one in documents.list() if one.name == question.document)
    text = documents.text(document)
    start = text.index(question.answer)
    end = start + len(question.answer)
    whole = _whole(documents, document)
    sentence = _sentence(text, start, end)
    right = number = 0
    for sources in (found, whole):
        holding = {s.id for s in sources if s.document.seq == document.seq and s.start < end and s.end > start}
        for said in (sentence, f"{_content(question.text)}: {question.answer}.") if holding else ():
            number += 1
            right += _attributed(said, sources, holding)
    planted = [_is_marked(said, whole) for said in _planted(sentence, text)]
    return Citing(valid, (right, number), (sum(planted), len(planted)))


def _valid(documents: Documents, question: Question, sources: Sequence[Source]) -> tuple[int, int]:
    """Citations of the evidence's best sentences that name a source there is, and whose quote stands at its place."""
    from octavo.app.documents.citations import check
    from octavo.app.documents.question import covered, terms_of
    from octavo.app.documents.sentences import sentences

    texts = {document.id: documents.text(document) for document in documents.list()}
    terms, said = terms_of(question.text), []
    for source in sources[:2]:
        spans = sentences(source.text)
        best = max(spans, key=lambda span: len(covered(terms, [source.text[slice(*span)]])), default=(0, 0))
        said.append(f"{source.text[slice(*best)]} [{source.id}]")
    citations = check(" ".join(said), sources).citations
    known = {source.id for source in sources}
    right = [c for c in citations if c.id in known and texts[c.document][c.start : c.end] == c.quote]
    return len(right), len(citations)


def _attributed(said: str, sources: Sequence[Source], holding: set[str]) -> bool:
    from octavo.app.documents.citations import check

    cited = {citation.id for citation in check(said, sources).citations}
    return bool(cited) and cited <= holding


def _is_marked(said: str, sources: Sequence[Source]) -> bool:
    from octavo.app.documents.citations import check

    return bool(check(said, sources).unsupported)


def _planted(sentence: str, text: str) -> Iterator[str]:
    """The sentence with one of its numbers replaced by the document's next one of the same unit."""
    from octavo.app.documents.facts import figures, values

    own = values(sentence)
    others = figures(text)
    for figure in figures(sentence):
        rivals = [other for other in others if other.unit == figure.unit and other.value not in own]
        if rivals and not figure.loose and not figure.unit.startswith("date"):
            other = text[rivals[0].start : rivals[0].end]
            yield f"{sentence[: figure.start]}{other}{sentence[figure.end :]}"


def _whole(documents: Documents, document: StoredDocument) -> list[Source]:
    from octavo.app.documents.evidence import Source

    return [
        Source(f"C{place}", document, c.start, c.stop, c.page, c.headings, c.head, c.text, c.text)
        for place, c in enumerate(documents.chunks_of(document), start=1)
        if c.text.strip()
    ]


def _sentence(text: str, start: int, end: int) -> str:
    """The sentence or, in code, the line with the answer."""
    from octavo.app.documents.sentences import sentences

    spans = [span for span in sentences(text) if span[0] < end and span[1] > start]
    sentence = text[spans[0][0] : spans[-1][1]]
    return next((line for line in sentence.splitlines() if text[start:end] in line), sentence)


def _content(question: str) -> str:
    from octavo.app.documents.question import content_of

    return content_of(question)
