"""A connection to the database file, and what SQLite says about the file in words a person can act on."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from octavo.storage.errors import StorageError

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

_BUSY_SECONDS = 5.0
_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    # What is deleted is overwritten, too.
    "PRAGMA secure_delete = ON",
    # What was committed survives a power cut, not only a killed process.
    "PRAGMA synchronous = FULL",
    # A sort never writes text to a file of its own.
    "PRAGMA temp_store = MEMORY",
)


class DamagedDatabaseError(StorageError):
    """The bytes of the database are not what was written."""


def connect(path: Path, access: Literal["write", "query", "look"]) -> Connection:
    """A connection to the file at `path`, an absolute path; it may be used from one thread at a time, any thread.

    "query" refuses statements that write. "look" cannot write the file at all, not even to tidy up after a process
    that was killed. Raises sqlite3.Error if the file cannot be opened.
    """
    from sqlite_utils import Database as Connection

    uri = f"{path.as_uri()}?mode={'ro' if access == 'look' else 'rw'}"
    # Readers share the log through a file in the folder; where none can be made and there is no log, nothing changes.
    if not os.access(path.parent, os.W_OK) and not beside(path, "-wal").exists():
        uri += "&immutable=1"
    raw = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            raw.execute(pragma)
        if access == "write":
            raw.execute("PRAGMA journal_mode = WAL")
        if access == "query":
            raw.execute("PRAGMA query_only = ON")
        # A flipped bit costs one character, not the conversation.
        raw.text_factory = lambda text: text.decode("utf-8", "replace")
        return Connection(raw, recursive_triggers=False, execute_plugins=False)
    except BaseException:
        raw.close()
        raise


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Raise what SQLite says about the file as StorageError; errors of the program (constraints, misuse) pass."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.DatabaseError as error:
        raise _translation(path, error) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged schema in its message, byte by byte.
        raise damaged(path, "its text is not UTF-8") from error


def damaged(path: Path, problem: str) -> DamagedDatabaseError:
    """What to raise for a database that `problem` makes unusable."""
    return DamagedDatabaseError(
        f"The database {path} is damaged ({problem}) and was left as it is; restore a copy of it, or move it away "
        f"together with the files named {path.name}-wal and {path.name}-shm to start with an empty one."
    )


def beside(path: Path, suffix: str) -> Path:
    """The file of the same name with `suffix` added."""
    return path.with_name(path.name + suffix)


def _translation(path: Path, error: sqlite3.DatabaseError) -> StorageError:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, str(error))
        case sqlite3.SQLITE_FULL:
            problem = "the disk is full; free some space and try again"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            problem = "another program keeps it locked; close that one and try again"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            problem = f"{error}; check who may write it, and its folder"
        case _:
            problem = str(error)
    return StorageError(f"The database {path} cannot be used: {problem}.")
