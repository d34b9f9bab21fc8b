"""Documents, their versions and their chunks."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from octavo.storage import chunk_vectors
from octavo.storage.chunk_rows import drop_chunks, insert_chunks
from octavo.storage.chunk_search import WordHit, rarity, search_words
from octavo.storage.document_records import (
    DOCUMENT_COLUMNS,
    NewDocument,
    State,
    StoredChunk,
    StoredDocument,
    chunk_from_row,
    document_from_row,
)
from octavo.storage.errors import StorageError
from octavo.storage.ids import new_id
from octavo.storage.records import storable

if TYPE_CHECKING:
    import numpy as np
    from sqlite_utils import Database as Connection

    from octavo.storage.chunk_vectors import VectorHit
    from octavo.storage.database import Database

_SELECT = f"SELECT {DOCUMENT_COLUMNS} FROM documents"  # noqa: S608
_SHORTEST_PREFIX = 4


__all__ = ["Documents", "NewDocument", "StoredChunk", "StoredDocument"]


class Documents:
    """The documents in `database`. Methods may be called from any thread, and raise StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_writable(self) -> bool:
        """False where another process has the right to add documents."""
        return self._database.writable

    def together(self) -> AbstractContextManager[object]:
        """What is written inside is committed at once: many small documents at the price of one."""
        return self._database.atomic()

    def put(self, new: NewDocument) -> StoredDocument:
        """Store a document, in place of what is there of the same path as its next version."""
        now = _now()
        with self._database.atomic() as connection:
            row = connection.execute(f"{_SELECT} WHERE path = ?", [new.path]).fetchone()
            old = document_from_row(row) if row is not None else None
            if old is not None:
                drop_chunks(connection, old)
                connection.execute("DELETE FROM vectors WHERE document_seq = ?", [old.seq])
                version = old.version + (old.bytes_sha256 != new.bytes_sha256)
                connection.execute(
                    "UPDATE documents SET version = ?, updated = ? WHERE seq = ?", [version, now, old.seq]
                )
                seq = old.seq
            else:
                version = 1
                cursor = connection.execute(
                    "INSERT INTO documents (id, path, name, state, version, created, updated, size, mtime_ns, "
                    "bytes_sha256, text_sha256, outcome, facts, pages, solid, num_characters, first_chunk, num_chunks) "
                    "VALUES (?, ?, ?, 'present', 1, ?, ?, 0, 0, '', '', '', '', '', '', 0, 0, 0)",
                    [new_id(), new.path, storable(new.name), now, now],
                )
                assert cursor.lastrowid is not None
                seq = cursor.lastrowid
            first = insert_chunks(connection, seq, new.chunks)
            _fill(connection, seq, new, first)
            connection.execute(
                "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?)",
                [seq, version, now, new.bytes_sha256, new.text_sha256],
            )
            connection.execute("DELETE FROM queue WHERE path = ?", [new.path])
            return document_from_row(connection.execute(f"{_SELECT} WHERE seq = ?", [seq]).fetchone())

    def list(self) -> builtins.list[StoredDocument]:
        """Every document, by name."""
        with self._database.reading() as connection:
            return [document_from_row(row) for row in connection.execute(f"{_SELECT} ORDER BY name, seq").fetchall()]

    def by_path(self, path: str) -> StoredDocument | None:
        """The document of this path."""
        return self._first("path = ?", path)

    def below(self, path: str) -> builtins.list[StoredDocument]:
        """The document of this path, or those in the folder of this path, by path."""
        folder = path.rstrip("/")
        with self._database.reading() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE path = ? OR (path > ? AND path < ?) ORDER BY path",
                [path, f"{folder}/", f"{folder}0"],  # "0" follows "/"
            ).fetchall()
        return [document_from_row(row) for row in rows]

    def by_bytes(self, sha256: str) -> StoredDocument | None:
        """A document whose file has these bytes."""
        return self._first("bytes_sha256 = ?", sha256)

    def resolve(self, given: str) -> StoredDocument:
        """The one document with this id, beginning of an id, path or name. Raises StorageError for none or several."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE path = ? OR name = ? OR (length(?) >= ? AND id >= ? AND id < ?) LIMIT 2",
                [given, given, given, _SHORTEST_PREFIX, given.lower(), given.lower() + "\U0010ffff"],
            ).fetchall()
        if not rows:
            raise StorageError(f"There is no document {given}; `octavo docs list` shows them.")
        if len(rows) > 1:
            raise StorageError(f"More than one document is called {given}; give its id or its whole path.")
        return document_from_row(rows[0])

    def touch(
        self, seq: int, *, path: str | None = None, mtime_ns: int | None = None, state: State = "present"
    ) -> None:
        """Note where the file of a document is now, or that it is gone."""
        with self._database.atomic() as connection:
            connection.execute(
                "UPDATE documents SET path = coalesce(?, path), mtime_ns = coalesce(?, mtime_ns), state = ? "
                "WHERE seq = ?",
                [path, mtime_ns, state, seq],
            )
            if path is not None:
                connection.execute("DELETE FROM queue WHERE path = ?", [path])

    def remove(self, seq: int) -> None:
        """Delete a document with all that was made of it, and overwrite its bytes."""
        with self._database.atomic() as connection:
            row = connection.execute(f"{_SELECT} WHERE seq = ?", [seq]).fetchone()
            if row is not None:
                drop_chunks(connection, document_from_row(row))
                connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
                connection.execute("DELETE FROM documents WHERE seq = ?", [seq])
        self._database.checkpoint()

    def versions(self, seq: int) -> builtins.list[tuple[int, str, str]]:
        """Number, time and hash of the bytes of each version, the first one first."""
        with self._database.reading() as connection:
            return connection.execute(
                "SELECT version, added, bytes_sha256 FROM versions WHERE document_seq = ? ORDER BY version", [seq]
            ).fetchall()

    def chunks(self, numbers: Iterable[int]) -> dict[int, StoredChunk]:
        """The chunks with these numbers."""
        wanted = builtins.list(numbers)
        found: dict[int, StoredChunk] = {}
        with self._database.reading() as connection:
            for begin in range(0, len(wanted), 500):
                some = wanted[begin : begin + 500]
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT * FROM chunks WHERE seq IN ({marks})", some)  # noqa: S608
                found |= {row[0]: chunk_from_row(row) for row in rows.fetchall()}
        return found

    def chunks_of(self, document: StoredDocument) -> builtins.list[StoredChunk]:
        """Every chunk of a document, in order."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT * FROM chunks WHERE seq BETWEEN ? AND ? ORDER BY seq", document.chunks)
            return [chunk_from_row(row) for row in rows.fetchall()]

    def chunks_between(self, document: StoredDocument, start: int, end: int) -> builtins.list[StoredChunk]:
        """The chunks of a document that share a character with text[start:end], in order."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM chunks WHERE seq BETWEEN ? AND ? AND start < ? AND stop > ? ORDER BY seq",
                [*document.chunks, end, start],
            )
            return [chunk_from_row(row) for row in rows.fetchall()]

    def text(self, document: StoredDocument) -> str:
        """The whole text: its chunks, joined."""
        return "".join(chunk.text for chunk in self.chunks_of(document))

    def search_words(self, query: str, documents: Sequence[StoredDocument], limit: int) -> builtins.list[WordHit]:
        """Chunks of the documents (none: of all) that hold words of `query`, the best first."""
        ranges = [document.chunks for document in documents if document.num_chunks]
        if documents and not ranges:
            return []
        with self._database.reading() as connection:
            return search_words(connection, query, ranges, limit)

    def rarity(self, terms: Sequence[str], documents: Sequence[StoredDocument]) -> dict[str, float]:
        """How much each word tells: ln(1 + chunks / (1 + chunks that hold it)), counted up to 2,000 chunks."""
        ranges = [document.chunks for document in documents if document.num_chunks]
        total = sum(document.num_chunks for document in documents)
        with self._database.reading() as connection:
            return {term: rarity(connection, term, ranges, total) for term in terms} if ranges else {}

    def put_vectors(self, document: StoredDocument, embedder: str, vectors: np.ndarray) -> None:
        """Keep one vector per chunk, float32 [num_chunks, dimensions] of length 1, for the embedder of that name."""
        with self._database.atomic() as connection:
            chunk_vectors.put(connection, document.seq, embedder, vectors)

    def has_vectors(self, document: StoredDocument, embedder: str) -> bool:
        """True if every chunk has a vector of this embedder, or there is no chunk."""
        if not document.num_chunks:
            return True
        with self._database.reading() as connection:
            return chunk_vectors.has(connection, document.seq, embedder)

    def search_vectors(
        self, query: np.ndarray, embedder: str, documents: Sequence[StoredDocument], limit: int
    ) -> builtins.list[VectorHit]:
        """Chunks of the documents whose vectors are nearest to `query` (cosine), the nearest first."""
        with self._database.reading() as connection:
            return chunk_vectors.search(connection, query, embedder, [(d.seq, d.first_chunk) for d in documents], limit)

    def choice(self, name: str, default: str = "") -> str:
        """What was chosen for the whole library under this name."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT value FROM choices WHERE name = ?", [name]).fetchone()
        return str(row[0]) if row is not None else default

    def choose(self, name: str, value: str) -> None:
        """Remember a choice."""
        with self._database.atomic() as connection:
            connection.execute("INSERT OR REPLACE INTO choices VALUES (?, ?)", [name, value])

    def enqueue(self, paths: Iterable[str]) -> None:
        """Note files that are to be read, so that they are not forgotten when the program ends before."""
        with self._database.atomic() as connection:
            for path in paths:
                connection.execute("INSERT OR IGNORE INTO queue (path) VALUES (?)", [path])

    def queued(self) -> builtins.list[str]:
        """Files that are still to be read, in the order they were added."""
        with self._database.reading() as connection:
            return [row[0] for row in connection.execute("SELECT path FROM queue ORDER BY place").fetchall()]

    def dequeue(self, paths: Sequence[str] | None = None) -> None:
        """Forget files that were to be read; None is all of them."""
        with self._database.atomic() as connection:
            if paths is None:
                connection.execute("DELETE FROM queue")
            for path in paths or ():
                connection.execute("DELETE FROM queue WHERE path = ?", [path])

    def _first(self, condition: str, value: str) -> StoredDocument | None:
        with self._database.reading() as connection:
            row = connection.execute(f"{_SELECT} WHERE {condition} ORDER BY seq LIMIT 1", [value]).fetchone()
        return document_from_row(row) if row is not None else None


def _fill(connection: Connection, seq: int, new: NewDocument, first: int) -> None:
    facts, pages, solid = (json.dumps(value, ensure_ascii=False) for value in (new.facts, new.pages, new.solid))
    connection.execute(
        "UPDATE documents SET name = ?, state = 'present', size = ?, mtime_ns = ?, bytes_sha256 = ?, text_sha256 = ?, "
        "outcome = ?, facts = ?, pages = ?, solid = ?, num_characters = ?, first_chunk = ?, num_chunks = ? "
        "WHERE seq = ?",
        [
            storable(new.name),
            new.size,
            new.mtime_ns,
            new.bytes_sha256,
            new.text_sha256,
            new.outcome,
            storable(facts),
            pages,
            solid,
            new.num_characters,
            first,
            len(new.chunks),
            seq,
        ],
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
