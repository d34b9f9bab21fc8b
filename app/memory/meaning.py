"""Memories found by meaning where the sentence embedder is on this machine; it is loaded when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from octavo.app.memory.vectors import VectorSearch

if TYPE_CHECKING:
    from octavo.storage.database import Database
    from octavo.storage.paths import Paths

_AT_ONCE = 16  # memories between two pauses
_WITHOUT = "full text"


class Meaning:
    """The nearest memories to a text; none where there is no embedder.

    `pause` is called between batches, and returns when it may go on.
    """

    def __init__(self, database: Database, paths: Paths, *, pause: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._paths = paths
        self._pause = pause
        self._lock = threading.Lock()
        self._search: VectorSearch | None = None
        self._error = ""

    @property
    def is_there(self) -> bool:
        """True where there is an embedder that can be used."""
        return self.found_by != _WITHOUT

    @property
    def found_by(self) -> str:
        """How memories are found: "full text", or "full text and" the embedder's name."""
        from octavo.app.documents.embedder import DEFAULT, embedder_folder

        folder = embedder_folder(DEFAULT, self._paths)
        there = (folder / "model.safetensors").exists() and not self._error
        return f"{_WITHOUT} and {folder.name}" if there else _WITHOUT

    def nearest(self, text: str, memory_ids: Sequence[str], limit: int) -> list[tuple[str, float]]:
        """Up to `limit` of the ids that have vectors, with their cosine to `text`, the nearest first."""
        search = self._open() if memory_ids else None
        return search.nearest(text, memory_ids, limit) if search is not None else []

    def fill(self, memory_ids: Sequence[str]) -> None:
        """Make the vectors that are missing."""
        search = self._open() if memory_ids else None
        if search is None:
            return
        for start in range(0, len(memory_ids), _AT_ONCE):
            self._pause()
            search.fill(memory_ids[start : start + _AT_ONCE])

    def _open(self) -> VectorSearch | None:
        from octavo.app.documents.embedder import DEFAULT, load_embedder
        from octavo.engine.errors import EngineError

        with self._lock:
            if self._search is None and self.is_there:
                try:
                    embedder = load_embedder(DEFAULT, self._paths)
                except EngineError as error:
                    self._error = str(error)  # a damaged embedder is done without
                else:
                    self._search = VectorSearch(self._database, embedder) if embedder is not None else None
            return self._search
