"""Vectors for the chunks of documents that have none of the present embedder yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from octavo.app.documents.retrieve import passage_of

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.storage.documents import Documents

_CHUNKS_AT_ONCE = 64


def embed_missing(
    documents: Documents,
    embedder: Embedder,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> int:
    """Embed what lacks vectors, document by document; returns the number of chunks embedded. Raises StorageError.

    A cancelled or killed run keeps the documents that it has finished.
    """
    import numpy as np

    lacking = [document for document in documents.list() if not documents.has_vectors(document, embedder.name)]
    total, done = sum(document.num_chunks for document in lacking), 0
    for document in lacking:
        chunks = documents.chunks_of(document)
        pieces = []
        for begin in range(0, len(chunks), _CHUNKS_AT_ONCE):
            texts = [passage_of(chunk) for chunk in chunks[begin : begin + _CHUNKS_AT_ONCE]]
            vectors = embedder.vectors(texts, is_cancelled)
            if vectors is None:
                return done
            pieces.append(vectors)
            done += len(texts)
            progress(done, total)
        documents.put_vectors(document, embedder.name, np.concatenate(pieces))
    return done
