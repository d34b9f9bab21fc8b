"""The rows of a document's chunks and their entries in the index, written and deleted together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from octavo.storage.document_records import ChunkRow, StoredDocument
from octavo.storage.words import indexed

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection


def insert_chunks(connection: Connection, seq: int, chunks: Sequence[ChunkRow]) -> int:
    """Write the chunks and their index entries; returns the number of the first."""
    first = int(connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM chunks").fetchone()[0])
    raw = connection.conn
    raw.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((first + place, seq, *chunk) for place, chunk in enumerate(chunks)),
    )
    raw.executemany(
        "INSERT INTO chunks_fts (rowid, text, context) VALUES (?, ?, ?)",
        (
            (first + place, indexed(text), _context(headings, head))
            for place, (*_, headings, head, text) in enumerate(chunks)
        ),
    )
    return first


def drop_chunks(connection: Connection, document: StoredDocument) -> None:
    """Delete the chunks of a document; an index without a copy of the text has to be told what it holds."""
    rows = connection.execute(
        "SELECT seq, text, headings, head FROM chunks WHERE seq BETWEEN ? AND ?", document.chunks
    ).fetchall()
    connection.conn.executemany(
        "INSERT INTO chunks_fts (chunks_fts, rowid, text, context) VALUES ('delete', ?, ?, ?)",
        ((seq, indexed(text), _context(headings, head)) for seq, text, headings, head in rows),
    )
    connection.execute("DELETE FROM chunks WHERE seq BETWEEN ? AND ?", document.chunks)


def _context(headings: str, head: str) -> str:
    return indexed(" ".join((*json.loads(headings), head))) if headings != "[]" or head else ""
