"""Which chunks the model gets to see, within a budget of tokens; and a ledger that says why, for every candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from octavo.app.documents.question import covered, terms_of
from octavo.app.documents.sentences import sentences

if TYPE_CHECKING:
    from octavo.app.documents.retrieve import Candidate
    from octavo.storage.documents import StoredDocument

Count = Callable[[str], int]

_FLOOR_COSINE = 0.2
_FLOOR_SHARE = 0.5  # of the best candidate's fused score: below it, one list alone speaks for it, and not first
_FEWEST_TOKENS = 24  # a fragment below this says too little
_HIDDEN = "hidden text"
_MOST_CHOSEN = 6  # more distract a small model more than they help


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What became of a candidate. `id` is its name in the prompt; start and end are offsets in the document's text."""

    id: str | None
    document: str
    page: int | None
    start: int
    end: int
    decision: str  # "chosen", "trimmed", "left out", or "read" with the whole document
    reason: str
    tokens: int
    word_rank: int | None = None
    word_score: float | None = None
    vector_rank: int | None = None
    cosine: float | None = None
    fused: float = 0.0
    reranked: float | None = None
    document_id: str = ""

    def as_json(self) -> dict[str, Any]:
        """The row in values that JSON has."""
        return {key: round(value, 5) if isinstance(value, float) else value for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of evidence: `chunk` is text[start:end] of a document, `text` what the model sees of it."""

    id: str
    document: StoredDocument
    start: int
    end: int
    page: int | None
    headings: tuple[str, ...]
    head: str
    text: str
    chunk: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sources, the best first, and the ledger over all candidates."""

    sources: tuple[Source, ...]
    ledger: tuple[LedgerRow, ...]


def gather(question: str, candidates: Sequence[Candidate], budget: int, count: Count) -> Evidence:
    """Choose whole chunks while they fit into `budget` tokens, then sentences of the next ones."""
    sources: list[Source] = []
    rows: list[LedgerRow] = []
    names: dict[int, str] = {}
    terms = terms_of(question)
    best = candidates[0].fused if candidates else 0.0
    left = budget
    for place, candidate in enumerate(candidates):
        tokens = count(shown(candidate))
        decision, reason, text = "left out", "", ""
        if candidate.duplicate_of is not None:
            reason = f"duplicate of {names.get(candidate.duplicate_of, 'a candidate that was left out')}"
        elif _is_below(candidate, best):
            reason = "below the floor"
        elif len(sources) >= _MOST_CHOSEN:
            reason = "enough was chosen"
        elif tokens <= left:
            decision, reason, text = "chosen", "among the best", candidate.chunk.text
        else:
            text = _trimmed(candidate, terms, left, count)
            tokens = count(text) if text else tokens
            decision, reason = (
                ("trimmed", "sentences with words of the question") if text else ("left out", "over budget")
            )
        if text:
            names[place] = f"C{len(sources) + 1}"
            sources.append(source_of(names[place], candidate, text))
            left -= tokens
        rows.append(row_of(names.get(place), candidate, decision, reason, tokens))
    rows += _hidden_rows(candidates, terms)
    return Evidence(tuple(sources), tuple(rows))


def read_whole(evidence: Evidence, document_id: str, ids: Mapping[int, str]) -> Evidence:
    """The ledger where a whole document is in the prompt: `ids` has the name of its chunk that starts at a place.

    What is hidden is hidden there, too; what other documents hold is left out.
    """
    rows = []
    for row in evidence.ledger:
        if row.document_id not in ("", document_id):
            row = replace(row, id=None, decision="left out", reason="another document was read whole")
        elif row.reason != _HIDDEN:
            row = replace(row, id=ids.get(row.start), decision="read", reason="with the whole document")
        rows.append(row)
    return replace(evidence, ledger=tuple(rows))


def shown(candidate: Candidate) -> str:
    """A chunk as it stands in the prompt, with the header of the table that it is in."""
    return f"{candidate.chunk.head}\n{candidate.chunk.text}" if candidate.chunk.head else candidate.chunk.text


def _is_below(candidate: Candidate, best: float) -> bool:
    """True where neither list speaks for the candidate."""
    if candidate.word_rank is None and (candidate.cosine or 0.0) < _FLOOR_COSINE:
        return True
    return candidate.fused < _FLOOR_SHARE * best


def _trimmed(candidate: Candidate, terms: Sequence[str], left: int, count: Count) -> str:
    """Sentences of the chunk that hold words of the question, in their order; empty if none fits.

    Code, JSON and tables are taken whole or not at all.
    """
    chunk = candidate.chunk
    if left < _FEWEST_TOKENS or any(
        start < chunk.stop and end > chunk.start for start, end in candidate.document.solid
    ):
        return ""
    spans = sentences(chunk.text)
    weighed = [(len(covered(terms, [chunk.text[start:end]])), -place) for place, (start, end) in enumerate(spans)]
    chosen: list[int] = []
    for weight, minus_place in sorted(weighed, reverse=True):
        if not weight:
            break
        tried = sorted([*chosen, -minus_place])
        if count(_joined(chunk.text, spans, tried)) <= left:
            chosen = tried
    return _joined(chunk.text, spans, chosen)


def _joined(text: str, spans: Sequence[tuple[int, int]], chosen: Sequence[int]) -> str:
    """The chosen sentences; what is missing between them is shown."""
    pieces: list[str] = []
    last = -1
    for place in chosen:
        if pieces and place != last + 1:
            pieces.append("…")
        pieces.append(text[slice(*spans[place])])
        last = place
    return " ".join(pieces)


def source_of(name: str, candidate: Candidate, text: str) -> Source:
    """A candidate as the source of this name, of which the model sees `text`."""
    chunk = candidate.chunk
    return Source(
        name, candidate.document, chunk.start, chunk.stop, chunk.page, chunk.headings, chunk.head, text, chunk.text
    )


def row_of(name: str | None, candidate: Candidate, decision: str, reason: str, tokens: int) -> LedgerRow:
    chunk = candidate.chunk
    return LedgerRow(
        name,
        candidate.document.name,
        chunk.page,
        chunk.start,
        chunk.stop,
        decision,
        reason,
        tokens,
        candidate.word_rank,
        candidate.word_score,
        candidate.vector_rank,
        candidate.cosine,
        candidate.fused,
        candidate.reranked,
        candidate.document.id,
    )


def _hidden_rows(candidates: Sequence[Candidate], terms: Sequence[str]) -> list[LedgerRow]:
    """Rows for hidden text that speaks of what is asked; it was left out when the document was read."""
    rows = []
    for document in {candidate.document.seq: candidate.document for candidate in candidates}.values():
        for hidden in document.facts.get("hidden", ()):
            if covered(terms, [hidden["sample"]]):
                page = hidden["where"].removeprefix("page ")
                number = int(page) if page.isdigit() else None
                rows.append(LedgerRow(None, document.name, number, 0, 0, "left out", _HIDDEN, 0))
    return rows
