"""The thread that adds documents while the screen goes on: files are read, stored, and embedded in the background.

What waits to be read is noted in the library, so that a quit loses nothing: the next start goes on with it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from octavo.app.documents.index_events import (
    DocumentsRemoved,
    IndexDone,
    IndexEvent,
    IndexFailed,
    IndexProgress,
    Stage,
)
from octavo.app.errors import AppError
from octavo.engine.errors import EngineError
from octavo.storage.errors import StorageError

if TYPE_CHECKING:
    from octavo.app.documents.index import Added
    from octavo.app.documents.shelf import Shelf
    from octavo.storage.documents import Documents, StoredDocument

_TOLD_EVERY = 0.1  # seconds
_MOST_REFUSED = 100


@dataclass(frozen=True, slots=True)
class _Add:
    """Files and folders to add; None is what an earlier run left."""

    paths: tuple[Path, ...] | None
    conversation_id: str | None = None
    password: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Remove:
    documents: tuple[StoredDocument, ...]


class IndexThread:
    """Every command returns at once; `on_event` is called from the thread, and must return soon."""

    def __init__(self, shelf: Shelf, on_event: Callable[[IndexEvent], None]) -> None:
        self._shelf = shelf
        self._emit = on_event
        self._work: SimpleQueue[_Add | _Remove | None] = SimpleQueue()
        self._cancelled = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = 0.0
        self._is_busy = False

    @property
    def is_busy(self) -> bool:
        """True while files are added."""
        return self._is_busy

    def add(
        self,
        paths: Sequence[Path],
        conversation_id: str | None = None,
        *,
        password: str | None = None,
        again: bool = False,
    ) -> None:
        """Add files and folders; with `again`, unchanged ones are read anew."""
        self._put(_Add(tuple(paths), conversation_id, password, again))

    def resume(self) -> None:
        """Go on with what an earlier run left, if it did."""
        if self._shelf.paths.documents_file.exists():
            self._put(_Add(None))

    def remove(self, documents: Sequence[StoredDocument]) -> None:
        """Take documents out of the library."""
        self._put(_Remove(tuple(documents)))

    def cancel(self) -> bool:
        """Stop adding, and forget what waits; what is in stays. False if nothing was being added."""
        if self._is_busy:
            self._cancelled.set()
        return self._is_busy

    def close(self, timeout: float = 10.0) -> None:
        """Stop; what waits is added at the next start."""
        self._closing.set()
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(timeout)
        self._shelf.close()

    def _put(self, command: _Add | _Remove) -> None:
        if isinstance(command, _Add) and command.paths is not None:
            self._is_busy = True
        self._work.put(command)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="octavo-documents", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (command := self._work.get()) is not None and not self._closing.is_set():
            try:
                if isinstance(command, _Add):
                    self._add(command)
                else:
                    self._remove(command.documents)
            except (AppError, EngineError, StorageError, OSError) as error:
                self._emit(IndexFailed(str(error)))
            except Exception as error:
                self._emit(IndexFailed(f"Documents could not be added: {type(error).__name__}: {error}."))
            finally:
                self._is_busy = not self._work.empty()
                self._cancelled.clear()

    def _add(self, command: _Add) -> None:
        from octavo.app.documents.index import Found, Indexer, find_files
        from octavo.app.documents.parse import ParsingCancelledError, Reader

        documents = self._shelf.documents(make=True)
        assert documents is not None, "it is made"
        if not documents.is_writable:
            raise AppError("Another process is adding documents; try again when it is done.")
        with Reader(is_cancelled=self._is_stopped) as reader:
            indexer = Indexer(documents, reader)
            if command.paths is None:
                found = Found(indexer.resume(), 0)
                if not found.paths and not self._lacks_vectors(documents):
                    return
            else:
                self._tell("finding", 0, 0, due=True)
                found = find_files(command.paths)
            self._is_busy = True
            counts: Counter[str] = Counter()
            refused: list[Added] = []
            try:
                progress = self._progress(found.paths)
                for result in indexer.add(
                    found.paths,
                    password=command.password,
                    again=command.again,
                    progress=progress,
                    is_cancelled=self._is_stopped,
                ):
                    counts[result.status] += 1
                    if result.status == "refused" and len(refused) < _MOST_REFUSED:
                        refused.append(result)
            except ParsingCancelledError:
                pass
        if self._cancelled.is_set():
            documents.dequeue()
        notes = () if self._is_stopped() else self._embed(documents)
        if not self._closing.is_set():
            cancelled = self._cancelled.is_set()
            self._emit(
                IndexDone(command.conversation_id, dict(counts), tuple(refused), found.num_skipped, cancelled, notes)
            )

    def _progress(self, paths: Sequence[Path]) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            self._tell("reading", done, total, paths[min(done, total - 1)].name if total else "")

        return progress

    def _embed(self, documents: Documents) -> tuple[str, ...]:
        """Vectors for what has none. Without an embedder words are looked for, and that is said."""
        from octavo.app.documents.embedder import OFF, ensure_embedder
        from octavo.app.documents.embedding import embed_missing
        from octavo.app.errors import DownloadError, IntegrityError

        choice, settings = self._shelf.embedder_choice(), self._shelf.settings
        if choice == OFF:
            return ()
        try:
            ensure_embedder(choice, self._shelf.paths, offline=settings.offline, announce=self._announce)
        except (DownloadError, IntegrityError) as error:
            return (f"Documents are found by keywords alone: {error}",)
        embedder = self._shelf.embedder()
        assert embedder is not None, "it was ensured"
        embed_missing(
            documents,
            embedder,
            progress=lambda done, total: self._tell("embedding", done, total),
            is_cancelled=self._is_stopped,
        )
        return ()

    def _announce(self, text: str) -> None:
        self._tell("embedding", 0, 0, text, due=True)

    def _lacks_vectors(self, documents: Documents) -> bool:
        from octavo.app.documents.embedder import OFF, embedder_folder, embedder_name

        choice, paths = self._shelf.embedder_choice(), self._shelf.paths
        folder = embedder_folder(choice, paths)
        if choice == OFF or not (folder / "model.safetensors").exists():
            return False
        # The embedder itself is not loaded for that: it is most of a start.
        name = embedder_name(folder, paths)
        return any(not documents.has_vectors(document, name) for document in documents.list())

    def _remove(self, removed: Sequence[StoredDocument]) -> None:
        from octavo.app.documents.removing import note_removal, owners_of

        documents = self._shelf.documents(make=True)
        assert documents is not None, "it is made"
        owners: dict[str, None] = {}
        for document in removed:
            holders = self._shelf.attachments.holders(document.path)
            owners |= dict.fromkeys(owners_of(document, holders))
            note_removal(self._shelf.paths, documents, document, holders)
        self._emit(DocumentsRemoved(tuple(document.name for document in removed), tuple(owners)))

    def _is_stopped(self) -> bool:
        return self._cancelled.is_set() or self._closing.is_set()

    def _tell(self, stage: Stage, done: int, total: int, name: str = "", *, due: bool = False) -> None:
        now = time.monotonic()
        if due or done == total or now - self._told >= _TOLD_EVERY:
            self._told = now
            self._emit(IndexProgress(stage, done, total, name))
