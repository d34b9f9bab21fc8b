"""What the database of documents holds, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from octavo.storage.chunk_search import Range

State = Literal["present", "missing"]
ChunkRow = tuple[int, int, int | None, str, str, str]  # start, stop, page, headings as JSON, head, text
DOCUMENT_COLUMNS = (
    "seq, id, path, name, state, version, created, updated, size, mtime_ns, bytes_sha256, text_sha256, outcome, facts, "
    "pages, solid, num_characters, first_chunk, num_chunks"
)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document. `facts` say how reading it went; `pages` are the starts of its pages; "missing": its file is gone."""

    seq: int
    id: str
    path: str
    name: str
    state: State
    version: int
    created: str
    updated: str
    size: int
    mtime_ns: int
    bytes_sha256: str
    text_sha256: str
    outcome: str
    facts: Mapping[str, Any]
    pages: Sequence[int]
    solid: Sequence[Sequence[int]]
    num_characters: int
    first_chunk: int
    num_chunks: int

    @property
    def chunks(self) -> Range:
        """The numbers of its chunks."""
        return self.first_chunk, self.first_chunk + self.num_chunks - 1


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A file as read, before it is stored."""

    path: str
    name: str
    size: int
    mtime_ns: int
    bytes_sha256: str
    text_sha256: str
    outcome: str
    facts: Mapping[str, Any]
    pages: Sequence[int]
    solid: Sequence[Sequence[int]]
    num_characters: int
    chunks: Sequence[ChunkRow]


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """text[start:stop] of a document, on `page`; `headings` lead to it, `head` is the header of the table it is in."""

    seq: int
    document_seq: int
    start: int
    stop: int
    page: int | None
    headings: tuple[str, ...]
    head: str
    text: str


def document_from_row(row: Sequence[Any]) -> StoredDocument:
    """A row of DOCUMENT_COLUMNS."""
    facts, pages, solid = (json.loads(value) for value in row[13:16])
    return StoredDocument(*row[:13], facts, pages, solid, *row[16:])  # type: ignore[call-arg]


def chunk_from_row(row: Sequence[Any]) -> StoredChunk:
    """A whole row of `chunks`."""
    seq, document_seq, start, stop, page, headings, head, text = row
    return StoredChunk(seq, document_seq, start, stop, page, tuple(json.loads(headings)), head, text)
