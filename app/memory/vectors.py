"""Memories found by meaning: their sentence vectors, made once and kept in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from octavo.storage.database import Database

Vectors = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Embeds(Protocol):
    """A sentence embedder under a name that tells its weights."""

    @property
    def name(self) -> str:
        """What its vectors are kept under."""

    def reads(self, text: str) -> bool:
        """False for text that it was not trained on: its vectors would be noise."""

    def vectors(self, texts: Sequence[str]) -> Vectors | None:
        """One vector of length 1 a text, float32 [n, dimensions]; None if it gave way to something else."""


class VectorSearch:
    """The nearest memories by cosine, among those that have a vector."""

    def __init__(self, database: Database, embedder: Embeds) -> None:
        self._database = database
        self._embedder = embedder

    def nearest(self, text: str, memory_ids: Sequence[str], limit: int) -> list[tuple[str, float]]:
        """Up to `limit` of the ids with their cosine to `text`, the nearest first; none if the embedder gave way, or
        does not read such text."""
        known = self._known()
        ids = [memory_id for memory_id in memory_ids if memory_id in known]
        if not ids or not self._embedder.reads(text):
            return []
        asked = self._embedder.vectors([text])
        if asked is None:
            return []
        cosines = np.stack([known[memory_id] for memory_id in ids]) @ asked[0]
        order = np.argsort(-cosines, kind="stable")[:limit]
        return [(ids[place], float(cosines[place])) for place in order]

    def fill(self, memory_ids: Sequence[str]) -> bool:
        """Make the vectors that are missing; False if the embedder gave way before they were there."""
        known = self._known()
        missing = [memory_id for memory_id in memory_ids if memory_id not in known]
        if not missing or not self._database.writable:
            return True
        with self._database.reading() as connection:
            marks = ", ".join("?" * len(missing))
            rows = connection.execute(f"SELECT id, text FROM memories WHERE id IN ({marks})", missing).fetchall()  # noqa: S608
        rows = [row for row in rows if self._embedder.reads(row[1])]
        made = self._embedder.vectors([text for _, text in rows]) if rows else np.zeros((0, 0), np.float32)
        if made is None:
            return False
        with self._database.atomic() as connection:
            for (memory_id, _), vector in zip(rows, made, strict=True):
                connection.execute(
                    "INSERT OR REPLACE INTO memory_vectors VALUES (?, ?, ?)",
                    [memory_id, self._embedder.name, vector.astype("<f4").tobytes()],
                )
        return True

    def _known(self) -> dict[str, Vectors]:
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT memory_id, vector FROM memory_vectors WHERE model = ?", [self._embedder.name]
            ).fetchall()
        return {memory_id: np.frombuffer(vector, "<f4").astype(np.float32) for memory_id, vector in rows}
