"""The chunks that may answer a question: by words and by vectors, fused by reciprocal rank.

Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
SIGIR 2009: a chunk's score is the sum of 1 / (60 + rank) over the lists that it is in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from octavo.app.documents.question import content_of, terms_of
from octavo.storage.words import words_of

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.engine.encoders import CrossEncoder
    from octavo.storage.documents import Documents, StoredChunk, StoredDocument

_K = 60
_PER_LIST = 50
_RERANKED = 30
_NEAR = 0.85  # share of words two texts have in common to count as one
NO_EMBEDDER = "Only keywords were looked for: there is no sentence embedder (`octavo docs reindex --embedder default`)."

OTHER_SCRIPT = (
    "Only keywords were looked for: the sentence embedder does not know this script; a multilingual one does."
)


@dataclass(slots=True)
class Candidate:
    """A chunk that may answer; ranks count from 1, None where the chunk is not in the list."""

    chunk: StoredChunk
    document: StoredDocument
    word_rank: int | None = None
    word_score: float | None = None
    vector_rank: int | None = None
    cosine: float | None = None
    fused: float = 0.0
    reranked: float | None = None
    duplicate_of: int | None = None  # position among the candidates


@dataclass(slots=True)
class Retrieval:
    """Candidates, the best first; what each word of the question tells; seconds per stage; what has to be said."""

    candidates: list[Candidate]
    weights: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def passage_of(chunk: StoredChunk) -> str:
    """A chunk as it is embedded: under its headings, its table header repeated."""
    return "\n".join(part for part in (" › ".join(chunk.headings), chunk.head, chunk.text.strip()) if part)


def retrieve(
    documents: Documents,
    question: str,
    among: Sequence[StoredDocument],
    *,
    embedder: Embedder | None = None,
    reranker: CrossEncoder | None = None,
    limit: int = 40,
) -> Retrieval:
    """Up to `limit` candidates for a question from the documents `among`. Raises StorageError."""
    result = Retrieval([])
    by_number: dict[int, tuple[int | None, float | None, int | None, float | None]] = {}
    started = time.perf_counter()
    for rank, hit in enumerate(documents.search_words(content_of(question), among, _PER_LIST), start=1):
        by_number[hit.chunk] = (rank, hit.score, None, None)
    result.weights = documents.rarity(terms_of(question), among)
    started = _lap(result, "words", started)
    if embedder is None or not embedder.reads(question):
        result.notes.append(NO_EMBEDDER if embedder is None else OTHER_SCRIPT)
    else:
        vectors = embedder.vectors([question])
        assert vectors is not None, "nothing cancels it"
        started = _lap(result, "embed", started)
        hits = documents.search_vectors(vectors[0], embedder.name, among, _PER_LIST)
        for rank, near in enumerate(hits, start=1):
            word_rank, word_score, _, _ = by_number.get(near.chunk, (None, None, None, None))
            by_number[near.chunk] = (word_rank, word_score, rank, near.score)
        lacking = [document.name for document in among if not documents.has_vectors(document, embedder.name)]
        if lacking:
            result.notes.append(f"Only keywords were looked for in {', '.join(lacking[:3])}: no vectors yet.")
        started = _lap(result, "vectors", started)
    chunks = documents.chunks(by_number)
    owners = {document.seq: document for document in among}
    for number, (word_rank, word_score, vector_rank, cosine) in by_number.items():
        chunk = chunks.get(number)
        if chunk is None or chunk.document_seq not in owners or not chunk.text.strip():
            continue
        fused = sum(1 / (_K + rank) for rank in (word_rank, vector_rank) if rank is not None)
        found = Candidate(chunk, owners[chunk.document_seq], word_rank, word_score, vector_rank, cosine, fused)
        result.candidates.append(found)
    result.candidates.sort(key=lambda candidate: (-candidate.fused, candidate.chunk.seq))
    if reranker is not None:
        _rerank(result.candidates, question, reranker)
        started = _lap(result, "rerank", started)
    del result.candidates[limit:]
    mark_duplicates(result.candidates)
    _lap(result, "fuse", started)
    return result


def mark_duplicates(candidates: Sequence[Candidate]) -> None:
    """Point each candidate that says the same as a better one to that one."""
    words = [words_of(candidate.chunk.text) for candidate in candidates]
    for later in range(1, len(candidates)):
        for earlier in range(later):
            if candidates[earlier].duplicate_of is not None:
                continue
            common = len(words[later] & words[earlier])
            if common >= _NEAR * len(words[later] | words[earlier]) and _same_figures(
                candidates[earlier], candidates[later]
            ):
                candidates[later].duplicate_of = earlier
                break


def _same_figures(one: Candidate, other: Candidate) -> bool:
    """Two rows of a table or two clauses may differ in a number alone, and then they are two."""
    figures = [{word for word in words_of(item.chunk.text) if any(map(str.isdigit, word))} for item in (one, other)]
    return figures[0] == figures[1]


def _rerank(candidates: list[Candidate], question: str, reranker: CrossEncoder) -> None:
    head = candidates[:_RERANKED]
    scores = reranker.score([(question, passage_of(candidate.chunk)) for candidate in head])
    for candidate, row in zip(head, scores, strict=True):
        candidate.reranked = float(row[0])
    candidates[:_RERANKED] = sorted(head, key=lambda candidate: -(candidate.reranked or 0.0))


def _lap(result: Retrieval, stage: str, started: float) -> float:
    now = time.perf_counter()
    result.seconds[stage] = round(now - started, 6)
    return now
