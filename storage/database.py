"""One SQLite file for everything that must survive: one process writes it, any number read it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.storage.connection import beside, connect, damaged, told
from octavo.storage.errors import StorageError
from octavo.storage.lock import DatabaseBusyError, WriterLock
from octavo.storage.migrations import APPLICATION_ID, migrations, unknown_steps
from octavo.storage.paths import create_private

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

__all__ = ["Database", "DatabaseBusyError", "DatabaseMissingError", "open_database"]


class DatabaseMissingError(StorageError):
    """There is nothing to read yet: whoever opens the database for writing makes it."""


class Database:
    """An open database. Every method may be called from any thread.

    One connection writes, under a lock; each concurrent read borrows one of its own, so a read sees the last commit,
    and neither waits for a writer nor makes it wait. A read inside `atomic()` sees what that block has written.
    """

    def __init__(self, path: Path, lock: WriterLock | None) -> None:
        """open_database makes these, after checking the file at `path`; without a lock it only reads."""
        self.path = path
        self._lock = lock
        self._writer = None if lock is None else connect(path, "write")
        self._writing = threading.RLock()
        self._writing_thread: int | None = None
        self._idle: list[Connection] = []
        self._lending = threading.Lock()
        self._closed = False

    @property
    def writable(self) -> bool:
        """Whether this process has the right to write."""
        return self._writer is not None

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside `atomic()`: nobody else can write until it leaves."""
        return self._writing_thread == threading.get_ident()

    @contextlib.contextmanager
    def atomic(self) -> Iterator[Connection]:
        """Everything written inside is committed at the end, or nothing is; blocks nest.

        Raises StorageError if the database was opened for reading, is closed, or SQLite cannot write it.
        """
        with self._writing, told(self.path):
            self._refuse_closed()
            if self._writer is None:
                raise StorageError(f"The database {self.path} is open for reading only.")
            outer, self._writing_thread = self._writing_thread, threading.get_ident()
            try:
                with self._writer.atomic():
                    yield self._writer
            finally:
                self._writing_thread = outer

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with. Raises StorageError if the database is closed, or SQLite cannot read it.

        Fetch all rows before leaving the block: a half-read cursor keeps the next reader at an old state.
        """
        if self._writer is not None and self.in_transaction:
            yield self._writer
            return
        with told(self.path):
            connection = self._borrow()
            try:
                yield connection
            except BaseException:
                # It may still be in the middle of a statement.
                connection.close()
                raise
            self._give_back(connection)

    def checkpoint(self) -> bool:
        """Move everything from the write-ahead log into the file, and empty the log.

        False inside `atomic()`, and if a reader still needs the log; closing the last connection does it then.
        """
        with self._writing, told(self.path):
            self._refuse_closed()
            if self._writer is None or self._writing_thread is not None:
                return False
            busy: int = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            return not busy

    def close(self) -> None:
        """Close every connection and give back the right to write; a second call does nothing."""
        with self._writing:
            with self._lending:
                self._closed = True
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            if self._writer is not None:
                self._writer.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _borrow(self) -> Connection:
        with self._lending:
            self._refuse_closed()
            if self._idle:
                return self._idle.pop()
        return connect(self.path, "query")

    def _give_back(self, connection: Connection) -> None:
        with self._lending:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError(f"The database {self.path} is closed.")


def open_database(path: Path, *, write: bool = True) -> Database:
    """Open the database at `path` after checking that it is whole, Octavo's own, and not of a newer version.

    write=True makes or migrates it where needed, and keeps the right to write until close(). write=False reads
    alongside a writer.

    Raises DatabaseBusyError if another process has the right to write, DatabaseMissingError if there is nothing to
    read, and StorageError for a database that is damaged, newer or not accessible; such a file is left as it is.
    """
    path = path.absolute()
    try:
        with told(path):
            return _open_writer(path) if write else _open_reader(path)
    except OSError as error:
        raise StorageError(f"The database {path} is not accessible: {error.strerror or error}.") from error


def _open_writer(path: Path) -> Database:
    create_private(path.parent)
    lock = WriterLock(beside(path, ".lock"))
    try:
        if not path.exists():
            _create(path)
        if _check(path):
            _migrate(path)
        return Database(path, lock)
    except BaseException:
        lock.release()
        raise


def _open_reader(path: Path) -> Database:
    if not path.exists():
        raise DatabaseMissingError(f"There is no database at {path} yet; the first conversation makes it.")
    if _check(path):
        # An older version made it, and only a writer may bring it up to date; it can unless that version is running.
        _open_writer(path).close()
    return Database(path, None)


def _create(path: Path) -> None:
    """Make the database beside its place, and move it there when it is complete: a half-made one is never found."""
    log = beside(path, "-wal")
    if log.exists() and log.stat().st_size:
        # SQLite would apply it to the new file.
        raise StorageError(
            f"{log} belongs to a database that is not there any more; put {path.name} back, or move {log.name} away."
        )
    fresh = beside(path, ".new")
    for suffix in ("", "-journal", "-wal", "-shm"):
        beside(fresh, suffix).unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _migrate(fresh)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _migrate(path: Path) -> None:
    connection = connect(path, "write")
    try:
        migrations().apply(connection)
    finally:
        connection.close()


def _check(path: Path) -> bool:
    """Raise StorageError unless the database is whole, ours and not newer; True if migrations are pending."""
    if path.is_dir():
        raise StorageError(f"{path} is a folder where the database should be; move it away.")
    if not path.stat().st_size:
        raise damaged(path, "the file is empty")
    connection = connect(path, "look")
    try:
        problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise damaged(path, problem.splitlines()[-1])
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StorageError(f"{path} is a database of another program; move it away, and Octavo makes its own.")
        newer = unknown_steps(connection)
        if newer:
            raise StorageError(
                f"The database {path} was made by a newer Octavo (it has {newer[-1]}); update Octavo to open it."
            )
        return bool(migrations().pending(connection))
    finally:
        connection.close()
