"""What the documents hold for a question: passages, whether they can answer it, and which of them the model sees."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from octavo.app.documents.evidence import Count, Evidence, gather
from octavo.app.documents.overview import is_overview, spread
from octavo.app.documents.question import in_context
from octavo.app.documents.refusal import Verdict, judge
from octavo.app.documents.retrieve import Retrieval, retrieve

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.engine.encoders import CrossEncoder
    from octavo.storage.documents import Documents, StoredDocument

_MOST_CONCERNED = 4  # documents that are looked at by themselves


@dataclass(frozen=True, slots=True)
class Lookup:
    """`asked` is the question as it was looked up; `evidence` fits the room there was for it."""

    asked: str
    is_overview: bool
    retrieval: Retrieval
    verdict: Verdict
    evidence: Evidence


class Searcher:
    """Looks questions up in one library."""

    def __init__(
        self, documents: Documents, embedder: Embedder | None = None, reranker: CrossEncoder | None = None
    ) -> None:
        self._documents, self._embedder, self._reranker = documents, embedder, reranker

    def look_up(
        self, message: str, among: Sequence[StoredDocument], earlier: Sequence[str], room: int, count: Count
    ) -> Lookup:
        """Passages of the documents `among` for a message, in up to `room` tokens; `earlier` are the questions before
        it. Raises StorageError.
        """
        if among and is_overview(message, [document.name for document in among]):
            started = time.perf_counter()
            evidence = spread(self._documents, among, room, count)
            found = Retrieval([], seconds={"choose": round(time.perf_counter() - started, 6)})
            return Lookup(message, True, found, Verdict(not evidence.sources, 1.0, 1.0, ()), evidence)
        asked = in_context(message, earlier)
        found = retrieve(self._documents, asked, among, embedder=self._embedder, reranker=self._reranker)
        started = time.perf_counter()
        verdict = judge(found, asked, self._embedder)
        judged = time.perf_counter()
        evidence = gather(asked, found.candidates, room, count)
        found.seconds |= {"judge": round(judged - started, 6), "choose": round(time.perf_counter() - judged, 6)}
        verdict = replace(verdict, refused=verdict.refused or not evidence.sources)
        return Lookup(asked, False, found, verdict, evidence)

    def concerned(self, lookup: Lookup) -> list[StoredDocument]:
        """The documents that cover the question each by itself, the best first."""
        named = {source.document.seq: source.document for source in lookup.evidence.sources}
        found = list(named.values())
        if lookup.is_overview or len(found) < 2:
            return found
        return [document for document in found[:_MOST_CONCERNED] if not self._judge(lookup, document).refused]

    def _judge(self, lookup: Lookup, document: StoredDocument) -> Verdict:
        own = [each for each in lookup.retrieval.candidates if each.document.seq == document.seq]
        return judge(Retrieval(own, lookup.retrieval.weights), lookup.asked, self._embedder)
