"""Vectors of chunks: one value per document, and a search that looks at one bit per dimension first.

A vector's signs are 1/16 of its size in half precision; the chunks whose signs differ least from the query's are
compared in full. For a few documents that first step is left out: everything is compared in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from sqlite_utils import Database as Connection

_EXACT = 20_000  # chunks up to which all vectors are compared
_RESCORED = 8  # candidates by signs per result


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A chunk and the cosine of the angle between its vector and the query's."""

    chunk: int
    score: float


def put(connection: Connection, document_seq: int, embedder: str, vectors: np.ndarray) -> None:
    """Store float32 [chunks, dimensions] for a document, in place of what is there."""
    import numpy as np

    signs = np.packbits(vectors > 0, axis=1)
    connection.execute(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)",
        [document_seq, embedder, vectors.shape[1], signs.tobytes(), vectors.astype(np.float16).tobytes()],
    )


def has(connection: Connection, document_seq: int, embedder: str) -> bool:
    """True if the document has vectors of this embedder."""
    row = connection.execute(
        "SELECT 1 FROM vectors WHERE document_seq = ? AND embedder = ?", [document_seq, embedder]
    ).fetchone()
    return row is not None


def search(
    connection: Connection, query: np.ndarray, embedder: str, documents: Sequence[tuple[int, int]], limit: int
) -> list[VectorHit]:
    """The nearest chunks of `documents`, given as (number, number of its first chunk)."""
    import numpy as np

    first = dict(documents)
    rows = [
        (seq, count // (2 * query.shape[0]))
        for seq, count in connection.execute(
            "SELECT document_seq, length(vectors) FROM vectors WHERE embedder = ? AND dimensions = ?",
            [embedder, query.shape[0]],
        ).fetchall()
        if seq in first
    ]
    if not rows:
        return []
    numbers = np.concatenate([np.arange(count) + first[seq] for seq, count in rows])
    places = _places(connection, query, embedder, rows, limit) if len(numbers) > _EXACT else None
    vectors = _vectors(connection, embedder, rows, places, query.shape[0])
    scores = vectors.astype(np.float32) @ query
    chosen = numbers if places is None else numbers[places]
    best = np.argsort(-scores, kind="stable")[:limit]
    return [VectorHit(int(chosen[index]), float(scores[index])) for index in best]


def _places(
    connection: Connection, query: np.ndarray, embedder: str, rows: Sequence[tuple[int, int]], limit: int
) -> np.ndarray:
    """Positions, in order, of the vectors whose signs differ least from those of the query."""
    import numpy as np

    wanted = np.packbits(query > 0)
    pieces = [
        connection.execute(
            "SELECT signs FROM vectors WHERE document_seq = ? AND embedder = ?", [seq, embedder]
        ).fetchone()[0]
        for seq, _ in rows
    ]
    signs = np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, len(wanted))
    if len(wanted) % 8 == 0:
        differing = np.bitwise_count(signs.view(np.uint64) ^ wanted.view(np.uint64))
    else:
        differing = np.bitwise_count(signs ^ wanted)
    distances = differing.sum(axis=1, dtype=np.uint16)
    count = min(_RESCORED * limit, len(distances))
    return np.sort(np.argpartition(distances, count - 1)[:count])


def _vectors(
    connection: Connection, embedder: str, rows: Sequence[tuple[int, int]], places: np.ndarray | None, dimensions: int
) -> np.ndarray:
    """Vectors at the positions (None: all), read in place out of their documents' values; float16 [n, dimensions]."""
    import numpy as np

    width = 2 * dimensions
    pieces: list[bytes] = []
    begin = 0
    for seq, count in rows:
        here = None if places is None else places[(places >= begin) & (places < begin + count)] - begin
        begin += count
        if here is not None and not len(here):
            continue
        rowid = connection.execute(
            "SELECT rowid FROM vectors WHERE document_seq = ? AND embedder = ?", [seq, embedder]
        ).fetchone()[0]
        with connection.conn.blobopen("vectors", "vectors", rowid, readonly=True) as blob:
            if here is None:
                pieces.append(blob.read())
                continue
            for place in here.tolist():
                blob.seek(place * width)
                pieces.append(blob.read(width))
    return np.frombuffer(b"".join(pieces), np.float16).reshape(-1, dimensions)
