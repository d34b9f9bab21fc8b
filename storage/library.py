"""The database of documents: a file of its own beside that of the conversations.

It may become a hundred times larger, and all of it can be made again from the documents: checking it at every start,
as the conversations are checked, would cost the start more than it is worth. So damage is met where it is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.storage.connection import beside, connect, told
from octavo.storage.database import Database, DatabaseMissingError
from octavo.storage.errors import StorageError
from octavo.storage.lock import WriterLock
from octavo.storage.paths import create_private

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection
    from sqlite_utils import Migrations

APPLICATION_ID = 0x4F637464  # "Octd"

_DOCUMENTS = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    """CREATE TABLE documents (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        path TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        version INTEGER NOT NULL,
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        bytes_sha256 TEXT NOT NULL,
        text_sha256 TEXT NOT NULL,
        outcome TEXT NOT NULL,
        facts TEXT NOT NULL,
        pages TEXT NOT NULL,
        solid TEXT NOT NULL,
        num_characters INTEGER NOT NULL,
        first_chunk INTEGER NOT NULL,
        num_chunks INTEGER NOT NULL
    )""",
    "CREATE INDEX documents_by_bytes ON documents(bytes_sha256)",
    """CREATE TABLE versions (
        document_seq INTEGER NOT NULL REFERENCES documents(seq) ON DELETE CASCADE,
        version INTEGER NOT NULL,
        added TEXT NOT NULL,
        bytes_sha256 TEXT NOT NULL,
        text_sha256 TEXT NOT NULL,
        PRIMARY KEY (document_seq, version)
    )""",
    # A document's chunks are written in one go by the only writer, so their numbers follow one another.
    """CREATE TABLE chunks (
        seq INTEGER PRIMARY KEY,
        document_seq INTEGER NOT NULL,
        start INTEGER NOT NULL,
        stop INTEGER NOT NULL,
        page INTEGER,
        headings TEXT NOT NULL,
        head TEXT NOT NULL,
        text TEXT NOT NULL
    )""",
    # The index keeps no copy of the text: the rows above hold it.
    """CREATE VIRTUAL TABLE chunks_fts USING fts5(
        text, context, content = '', tokenize = "porter unicode61 remove_diacritics 2"
    )""",
    """CREATE TABLE vectors (
        document_seq INTEGER NOT NULL REFERENCES documents(seq) ON DELETE CASCADE,
        embedder TEXT NOT NULL,
        dimensions INTEGER NOT NULL,
        signs BLOB NOT NULL,
        PRIMARY KEY (document_seq, embedder)
    )""",
    # A row for each chunk: a value of megabytes would be walked through from its start to read a piece of it.
    """CREATE TABLE chunk_vectors (
        document_seq INTEGER NOT NULL,
        embedder TEXT NOT NULL,
        place INTEGER NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (document_seq, embedder, place),
        FOREIGN KEY (document_seq, embedder) REFERENCES vectors(document_seq, embedder) ON DELETE CASCADE
    ) WITHOUT ROWID""",
    "CREATE TABLE choices (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE queue (place INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE)",
)


def _documents(connection: Connection) -> None:
    for statement in _DOCUMENTS:
        connection.execute(statement)


STEPS = (("0001_documents", _documents),)


def open_library(path: Path, *, write: bool = True) -> Database:
    """Open the database of documents at `path`; write=True makes or migrates it where needed.

    Raises DatabaseBusyError if another process adds documents, DatabaseMissingError if there is nothing to read, and
    StorageError for a file that is not such a database, or of a newer version.
    """
    path = path.absolute()
    if not write:
        if not path.exists():
            raise DatabaseMissingError("There are no documents yet; `octavo docs add FILE` adds one.")
        with told(path):
            _check(path)
            if _pending(path):
                open_library(path).close()
        return Database(path, None)
    create_private(path.parent)
    lock = WriterLock(beside(path, ".lock"))
    try:
        with told(path):
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            _check(path)
            connection = connect(path, "write")
            try:
                _migrations().apply(connection)
            finally:
                connection.close()
        return Database(path, lock)
    except BaseException:
        lock.release()
        raise


def _migrations() -> Migrations:
    from sqlite_utils import Migrations

    known = Migrations("octavo-documents")
    for name, step in STEPS:
        known(name=name)(step)
    return known


def _pending(path: Path) -> bool:
    connection = connect(path, "look")
    try:
        return bool(_migrations().pending(connection))
    finally:
        connection.close()


def _check(path: Path) -> None:
    """Raise StorageError unless the file is new, or a database of documents that is not newer than this version."""
    if not path.stat().st_size:
        return
    connection = connect(path, "look")
    try:
        mark = connection.execute("PRAGMA application_id").fetchone()[0]
        if mark not in (0, APPLICATION_ID):
            raise StorageError(f"{path} is a database of another kind; move it away, and Octavo makes its own.")
        names = {name for name, _ in STEPS}
        newer = [step.name for step in _migrations().applied(connection) if step.name not in names]
        if newer:
            raise StorageError(f"{path} was made by a newer Octavo (it has {newer[-1]}); update Octavo to open it.")
    finally:
        connection.close()
