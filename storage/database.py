"""One SQLite file for everything that must survive: one process writes it, any number read it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from octavo.storage.errors import StorageError
from octavo.storage.lock import DatabaseBusyError, WriterLock
from octavo.storage.migrations import APPLICATION_ID, migrations, unknown_steps
from octavo.storage.paths import create_private

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

__all__ = ["Database", "DatabaseBusyError", "DatabaseMissingError", "open_database"]

_BUSY_SECONDS = 5.0
_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    # What was committed survives a power cut too, not only a killed process.
    "PRAGMA synchronous = FULL",
    # A sort never writes text to a file of its own.
    "PRAGMA temp_store = MEMORY",
)


class DatabaseMissingError(StorageError):
    """There is nothing to read yet: the first conversation makes the database."""


class Database:
    """An open database. Every method may be called from any thread.

    One connection writes, under a lock; each concurrent read borrows one of its own, so a read sees the last commit and
    neither waits for a writer nor makes it wait. A read inside `atomic()` sees what that block has written.
    """

    def __init__(self, path: Path, *, lock: WriterLock | None) -> None:
        """Made by open_database; without a lock it only reads."""
        self.path = path
        self._lock = lock
        self._writer = _connect(path, "rw") if lock is not None else None
        self._writing = threading.RLock()
        self._writing_thread: int | None = None
        self._idle: list[Connection] = []
        self._closed = False

    @property
    def writable(self) -> bool:
        """Whether this process holds the right to write."""
        return self._writer is not None

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
        """A connection to read with. Raises StorageError if the database is closed or damaged."""
        self._refuse_closed()
        with told(self.path):
            if self._writer is not None and self._writing_thread == threading.get_ident():
                yield self._writer
                return
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = _connect(self.path, "rw", query_only=True)
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    def checkpoint(self) -> bool:
        """Move everything from the write-ahead log into the file and empty the log.

        False if a reader still needs the log (another call or close() will do it), or inside `atomic()`.
        """
        with self._writing, told(self.path):
            self._refuse_closed()
            if self._writer is None or self._writing_thread is not None:
                return False
            busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            return not busy

    def close(self) -> None:
        """Close every connection and give back the right to write; a second call does nothing."""
        with self._writing:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            if self._writer is not None:
                self._writer.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError(f"The database {self.path} is closed.")


def open_database(path: Path, *, write: bool = True) -> Database:
    """Open the database at `path` after checking it: whole, Octavo's own, and not of a newer version.

    write=True creates and migrates it, and holds the right to write until close(). write=False reads alongside a
    writer. Raises DatabaseBusyError if another process has the right to write, DatabaseMissingError if there is
    nothing to read, and StorageError for a database that is damaged, newer, or not accessible; it is left untouched.
    """
    path = path.absolute()
    if not write:
        return _open_reader(path)
    create_private(path.parent)
    lock = WriterLock(path.with_name(path.name + ".lock"))
    try:
        with told(path):
            if not path.exists():
                _create(path)
            _check(path)
            database = Database(path, lock=lock)
            with contextlib.ExitStack() as undo:
                undo.callback(database.close)
                _prepare(database)
                undo.pop_all()
            return database
    except BaseException:
        lock.release()
        raise


def _open_reader(path: Path) -> Database:
    if not path.exists():
        raise DatabaseMissingError(f"There is no database at {path} yet; the first conversation makes it.")
    with told(path):
        if _check(path):
            # Of an older version. It can be migrated now unless that older version is running.
            open_database(path).close()
        return Database(path, lock=None)


def _prepare(database: Database) -> None:
    with database.reading() as connection:
        pending = migrations().pending(connection)
    if pending:
        _migrate(database._writer)


def _migrate(connection: Connection | None) -> None:
    assert connection is not None
    migrations().apply(connection)


def _create(path: Path) -> None:
    """Make the database beside its place and move it there whole: a half-made one is never found."""
    log = _beside(path, "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(
            f"{log} belongs to a database that is not there any more; put {path.name} back, or move {log.name} away."
        )
    fresh = _beside(path, ".new")
    for suffix in ("", "-journal", "-wal", "-shm"):
        _beside(fresh, suffix).unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = _connect(fresh, "rw")
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        migrations().apply(connection)
    finally:
        connection.close()
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _check(path: Path) -> bool:
    """Raise StorageError unless the database is whole, ours and not newer; True if steps are still to be applied.

    Reads through a connection that cannot write, so that a damaged file stays as it was found.
    """
    if path.is_dir():
        raise StorageError(f"{path} is a folder; the database should be a file there, so move the folder away.")
    if not path.stat().st_size:
        raise StorageError(_damaged(path, "it is empty"))
    connection = _connect(path, "ro")
    try:
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise StorageError(_damaged(path, problem.splitlines()[-1]))
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


def _connect(path: Path, mode: Literal["rw", "ro"], *, query_only: bool = False) -> Connection:
    from sqlite_utils import Database as Connection

    log = _beside(path, "-wal")
    # Without write access to the folder SQLite cannot share a log; without a log there is nothing to share.
    immutable = not os.access(path.parent, os.W_OK) and not log.exists()
    uri = f"{path.as_uri()}?mode={mode}" + ("&immutable=1" if immutable else "")
    raw = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            raw.execute(pragma)
        if query_only:
            raw.execute("PRAGMA query_only = ON")
        return Connection(raw, recursive_triggers=False, execute_plugins=False)
    except BaseException:
        raw.close()
        raise


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """SQLite's errors about the file as StorageError; errors of the program (constraints, misuse) stay as they are."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.DatabaseError as error:
        raise StorageError(_sentence(path, error)) from error
    except OSError as error:
        raise StorageError(f"The database {path} cannot be used: {error.strerror or error}.") from error


def _sentence(path: Path, error: sqlite3.Error) -> str:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damaged(path, str(error))
        case sqlite3.SQLITE_FULL:
            return f"The disk is full, so {path} could not be written; free some space and try again."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"Another program keeps {path} locked; close it and try again."
        case _:
            return f"The database {path} cannot be used: {error}."


def _damaged(path: Path, problem: str) -> str:
    return (
        f"The database {path} is damaged ({problem}) and was left as it is; restore a copy of it, or move it away "
        f"together with the files named {path.name}-wal and {path.name}-shm to start with an empty one."
    )


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
