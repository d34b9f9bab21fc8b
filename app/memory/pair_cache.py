"""Verdicts of a model on pairs of statements, by hashes of their texts, of the model, and of the template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.app.memory.check import Scores
from octavo.storage.memories import Memories

if TYPE_CHECKING:
    from octavo.storage.database import Database


class PairCache:
    """What one model said under one template. A database open for reading only is read, not written."""

    def __init__(self, database: Database, model: str, template: str) -> None:
        self._database = database
        self._memories = Memories(database)
        self._model = model
        self._template = template

    def get(self, old: str, new: str) -> Scores | None:
        """The scores of a pair, or None if it was never read."""
        keys = [self._memories.hashed(old), self._memories.hashed(new), self._model, self._template]
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT contradiction, entailment FROM memory_pair_verdicts "
                "WHERE premise = ? AND hypothesis = ? AND model = ? AND template = ?",
                keys,
            ).fetchone()
        return None if row is None else Scores(*row)

    def put(self, old: str, new: str, scores: Scores) -> None:
        """Keep the scores of a pair."""
        if not self._database.writable:
            return
        keys = [self._memories.hashed(old), self._memories.hashed(new), self._model, self._template]
        with self._database.atomic() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO memory_pair_verdicts VALUES (?, ?, ?, ?, ?, ?)",
                [*keys, scores.contradiction, scores.entailment],
            )
