"""An open store from the inside: who may change it, and what happens when its index turns out to be damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from octavo.storage.lock import WriterLock
from octavo.storage.pagestore import opening
from octavo.storage.pagestore.core import Core, SpaceKey
from octavo.storage.pagestore.erasing import drop_bad
from octavo.storage.pagestore.errors import PageStoreBusyError, PageStoreError
from octavo.storage.pagestore.reading import PageReader
from octavo.storage.pagestore.records import Shape
from octavo.storage.pagestore.writing import BatchWriter

_T = TypeVar("_T")


class Session:
    """What the store and its spaces work with. Any thread may call any method."""

    def __init__(self, core: Core, lock: WriterLock | None) -> None:
        """Without a lock the store is read only."""
        self.core = core
        self.reader = PageReader(core)
        self.writer = BatchWriter(core)
        self._lock = lock
        self._closed = False
        self._numbers: dict[tuple[bytes, Shape], int] = {}

    def key(self, root: bytes, shape: Shape) -> SpaceKey | None:
        """The space as the index knows it now; None if this process only reads, and nobody has written to it.

        Raises sqlite3.Error.
        """
        number = self._numbers.get((root, shape))
        if number is None:
            number = self.core.index.space(root, shape)
            if number is None and self.core.writable:
                with self.core.writing:
                    number = self.core.index.add_space(root, shape)
            if number is None:
                return None
            self._numbers[root, shape] = number
        return SpaceKey(number, root, shape)

    def changing(self, change: Callable[[Core], _T], *, settled: bool = True) -> _T:
        """What `change` returns, called while nobody else writes; with `settled` what was begun is written before.

        Raises PageStoreBusyError if the store is read only, and PageStoreError if it is closed or the disk fails.
        """
        core = self.core
        with core.writing:
            if not core.writable:
                raise PageStoreBusyError(f"The page store {core.folder} is open for reading only.")
            if self._closed:
                raise PageStoreError(f"The page store {core.folder} is closed.")
            try:
                if settled or core.index_is_damaged:
                    core.settle()
                if core.index_is_damaged:
                    opening.rebuild(core)
                    self._numbers.clear()
                return change(core)
            except (OSError, sqlite3.Error) as error:
                raise opening.told(core.folder, error) from error

    def close(self) -> None:
        """Finish the reads, flush, and give back the right to write; a second call does nothing."""
        core = self.core
        with core.writing:
            if self._closed:
                return
            self._closed = True
            core.settle()
            self.reader.close()
            self.writer.close()
            try:
                if core.writable:
                    flush(core)
                    core.index.checkpoint()
            except (OSError, sqlite3.Error) as error:
                core.note(str(opening.told(core.folder, error)))
            finally:
                core.index.close()
                core.files.close()
                if self._lock is not None:
                    self._lock.release()


def flush(core: Core) -> None:
    """Bring what was noted lazily to the disk. Raises OSError and sqlite3.Error."""
    drop_bad(core)
    with core.index.atomic() as connection:
        core.write_uses(connection)
        core.write_counters(connection)
