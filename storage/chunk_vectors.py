"""Vectors of chunks, and a search that looks at one bit per dimension first.

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

    connection.execute("DELETE FROM vectors WHERE document_seq = ? AND embedder = ?", [document_seq, embedder])
    # Turned so that eight bytes of every vector lie side by side: that is how they are compared.
    signs = np.ascontiguousarray(_packed(vectors).T)
    connection.execute(
        "INSERT INTO vectors VALUES (?, ?, ?, ?)", [document_seq, embedder, vectors.shape[1], signs.tobytes()]
    )
    connection.conn.executemany(
        "INSERT INTO chunk_vectors VALUES (?, ?, ?, ?)",
        ((document_seq, embedder, place, row.tobytes()) for place, row in enumerate(vectors.astype(np.float16))),
    )


def _packed(vectors: np.ndarray) -> np.ndarray:
    """Signs as uint64 [n, dimensions / 64 rounded up]."""
    import numpy as np

    bits = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


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
    width = 8 * -(-query.shape[0] // 64)
    rows = [
        (seq, length // width)
        for seq, length in connection.execute(
            "SELECT document_seq, length(signs) FROM vectors WHERE embedder = ? AND dimensions = ?",
            [embedder, query.shape[0]],
        ).fetchall()
        if seq in first
    ]
    if not rows:
        return []
    if sum(count for _, count in rows) <= _EXACT:
        found = _all_vectors(connection, embedder, rows)
    else:
        found = _vectors(connection, embedder, _nearest_signs(connection, query, embedder, rows, _RESCORED * limit))
    vectors = np.frombuffer(b"".join(vector for _, _, vector in found), np.float16).reshape(-1, query.shape[0])
    scores = vectors.astype(np.float32) @ query
    best = np.argsort(-scores, kind="stable")[:limit].tolist()
    return [VectorHit(first[found[index][0]] + found[index][1], float(scores[index])) for index in best]


def _nearest_signs(
    connection: Connection, query: np.ndarray, embedder: str, rows: Sequence[tuple[int, int]], most: int
) -> list[tuple[int, int]]:
    """(document, place) of the vectors whose signs differ least from those of the query."""
    import numpy as np

    wanted = _packed(query[None])[0]
    pieces = []
    for seq, count in rows:
        signs = connection.execute(
            "SELECT signs FROM vectors WHERE document_seq = ? AND embedder = ?", [seq, embedder]
        ).fetchone()[0]
        columns = np.frombuffer(signs, np.uint64).reshape(len(wanted), count)
        distances = np.zeros(count, np.uint16)
        for column, word in zip(columns, wanted, strict=True):
            distances += np.bitwise_count(column ^ word)
        pieces.append(distances)
    together = np.concatenate(pieces)
    most = min(most, len(together))
    places = np.sort(np.argpartition(together, most - 1)[:most])
    begins = np.cumsum([0, *(count for _, count in rows)])
    owners = np.searchsorted(begins, places, side="right") - 1
    return [
        (rows[owner][0], place - int(begins[owner]))
        for owner, place in zip(owners.tolist(), places.tolist(), strict=True)
    ]


def _all_vectors(
    connection: Connection, embedder: str, rows: Sequence[tuple[int, int]]
) -> list[tuple[int, int, bytes]]:
    """(document, place, vector) of every chunk of the documents."""
    found: list[tuple[int, int, bytes]] = []
    for seq, _ in rows:
        found += connection.execute(
            "SELECT document_seq, place, vector FROM chunk_vectors WHERE document_seq = ? AND embedder = ?",
            [seq, embedder],
        ).fetchall()
    return found


def _vectors(connection: Connection, embedder: str, wanted: Sequence[tuple[int, int]]) -> list[tuple[int, int, bytes]]:
    """(document, place, vector) of the chunks wanted."""
    return [
        connection.execute(
            "SELECT document_seq, place, vector FROM chunk_vectors "
            "WHERE document_seq = ? AND embedder = ? AND place = ?",
            [seq, embedder, place],
        ).fetchone()
        for seq, place in wanted
    ]
