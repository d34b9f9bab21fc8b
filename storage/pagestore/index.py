"""The index of the page store: an SQLite file of its own beside the segments, which can be made again from them.

Commits of new pages are not forced to the disk one by one (synchronous = NORMAL): losing the last of them in a power
cut loses pages that are computed again. `durable` forces one, before the space of a dropped page is used again.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.storage.connection import beside
from octavo.storage.pagestore.indexfile import PAGE_BYTES, PINS, SCHEMA, SUFFIXES, VERSION, connect, version
from octavo.storage.pagestore.records import ORIGINS, PageHeader, Place, Shape, unpack_numbers

_MOST_VARIABLES = 500
_ROW = "id, space, identity, parent, tokens, checksums, origin, depth, segment, start, run_start, run_slots"


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page in the store: what it is, and what is needed to read it. `page_id` is the epoch of its header."""

    page_id: int
    space: int
    identity: bytes
    parent: bytes
    packed_tokens: bytes
    packed_checksums: bytes
    origin: str
    depth: int
    place: Place

    @property
    def token_ids(self) -> tuple[int, ...]:
        return unpack_numbers("I", self.packed_tokens)

    @property
    def body_checksum(self) -> int:
        return int.from_bytes(self.packed_checksums[-8:], "little")

    @property
    def checksums(self) -> tuple[int, ...]:
        return unpack_numbers("Q", self.packed_checksums)


class Index:
    """An open index. Look-ups have a connection of their own and never wait for a writer.

    Every method raises sqlite3.Error; those that write are for the one thread that holds the right to write.
    """

    def __init__(self, path: Path, *, write: bool, longest_log: int = 2 << 20) -> None:
        """Open the index at `path`, making an empty one if `write`. Raises sqlite3.DatabaseError if it is damaged.

        longest_log: bytes of the write-ahead log, about, at which it is moved into the file.
        """
        self.path = path
        self.longest_log = longest_log
        self._looking = threading.Lock()
        self._changing = threading.Lock()
        self._writer = connect(path, write=True) if write else None
        try:
            if self._writer is not None:
                self._writer.execute(f"PRAGMA wal_autocheckpoint = {longest_log // 2 // PAGE_BYTES}").fetchone()
                if not version(self._writer):
                    self._create(self._writer)
                self._writer.execute(PINS)
            self._reader = connect(path, write=False)
        except BaseException:
            if self._writer is not None:
                self._writer.close()
            raise
        try:
            problem = self._reader.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok" or version(self._reader) != VERSION:
                raise sqlite3.DatabaseError(f"the index is not usable: {problem}")
        except BaseException:
            self.close()
            raise

    @property
    def num_bytes(self) -> int:
        """Bytes of the index on the disk."""
        total = 0
        for suffix in SUFFIXES:
            with contextlib.suppress(OSError):
                total += beside(self.path, suffix).stat().st_size
        return total

    @property
    def writer(self) -> sqlite3.Connection:
        assert self._writer is not None, "whoever writes has opened the index for writing"
        return self._writer

    @contextlib.contextmanager
    def atomic(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """What is written inside is committed at the end, or nothing is; `durable`: on the disk, too.

        A thread waits while another one is inside.
        """
        with self._changing:
            if durable:
                self.writer.execute("PRAGMA synchronous = FULL")
            try:
                self.writer.execute("BEGIN IMMEDIATE")
                try:
                    yield self.writer
                    self.writer.execute("COMMIT")
                except BaseException:
                    if self.writer.in_transaction:
                        self.writer.execute("ROLLBACK")
                    raise
            finally:
                if durable:
                    self.writer.execute("PRAGMA synchronous = NORMAL")

    def checkpoint(self) -> None:
        """Empty the log, so that what was deleted is in no file any more."""
        self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """A second call does nothing."""
        with self._looking:
            if getattr(self, "_reader", None) is not None:
                self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def look(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query, as of the last commit."""
        with self._looking:
            return self._reader.execute(sql, values).fetchall()

    def spaces(self) -> dict[int, tuple[bytes, Shape]]:
        rows = self.look("SELECT id, root, num_layers, record_bytes, page_size, settings FROM spaces")
        return {row[0]: (row[1], Shape(*row[2:])) for row in rows}

    def find(self, space: int, identities: Sequence[bytes]) -> dict[bytes, StoredPage]:
        """The committed pages among `identities`."""
        found: dict[bytes, StoredPage] = {}
        for begin in range(0, len(identities), _MOST_VARIABLES):
            part = identities[begin : begin + _MOST_VARIABLES]
            sql = f"SELECT {_ROW} FROM pages WHERE space = ? AND identity IN ({_marks(part)})"  # noqa: S608
            for row in self.look(sql, [space, *part]):
                page = page_from_row(row)
                found[page.identity] = page
        return found

    def by_id(self, page_id: int) -> StoredPage | None:
        """The page as it lies now, if it is still there."""
        rows = self.look(f"SELECT {_ROW} FROM pages WHERE id = ?", [page_id])  # noqa: S608
        return page_from_row(rows[0]) if rows else None

    def pages(self, where: str = "1", values: Sequence[Any] = ()) -> list[StoredPage]:
        """The pages for which the SQL condition holds (`... ORDER BY ... LIMIT` may follow it)."""
        return [page_from_row(row) for row in self.look(f"SELECT {_ROW} FROM pages WHERE {where}", values)]  # noqa: S608

    def counters(self) -> dict[str, int]:
        return dict(self.look("SELECT name, value FROM counters"))

    def pinned(self) -> set[str]:
        """Owners whose pages are never given up for others'."""
        has_pins = self.look(
            "SELECT 1 FROM sqlite_master WHERE name = 'pins'"
        )  # nobody has written since there are any
        return {owner for (owner,) in self.look("SELECT owner FROM pins")} if has_pins else set()

    def count(self, connection: sqlite3.Connection, **values: int) -> None:
        """Set counters to `values`."""
        connection.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", values.items())

    def add_space(self, root: bytes, shape: Shape) -> int:
        """Number of the space with exactly this root and shape; a new one if there is none yet."""
        values = [root, shape.settings, shape.num_layers, shape.record_bytes, shape.page_size]
        with self.atomic() as connection:
            connection.execute("INSERT OR IGNORE INTO spaces VALUES (NULL, ?, ?, ?, ?, ?)", values)
        number = self.space(root, shape)
        assert number is not None
        return number

    def space(self, root: bytes, shape: Shape) -> int | None:
        """Number of the space with exactly this root and shape, if there is one."""
        known = self.spaces().items()
        return next((number for number, found in known if found == (root, shape)), None)

    def insert(self, connection: sqlite3.Connection, space: int, headers: Sequence[PageHeader], last_use: int) -> None:
        """Add pages, each with its one owner. Raises sqlite3.IntegrityError if an identity or a place is taken."""
        rows = [_row(space, header, last_use) for header in headers]
        connection.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO owners VALUES (?, ?)", [(each.epoch, each.owner) for each in headers])

    def add_owners(self, connection: sqlite3.Connection, page_ids: Iterable[int], owner: str) -> None:
        connection.executemany("INSERT OR IGNORE INTO owners VALUES (?, ?)", ((page, owner) for page in page_ids))

    def delete(self, connection: sqlite3.Connection, page_ids: Sequence[int]) -> None:
        """Remove pages and whoever owns them."""
        if not page_ids:
            return
        keys = [(page_id,) for page_id in page_ids]
        connection.executemany("DELETE FROM pages WHERE id = ?", keys)
        connection.executemany("DELETE FROM owners WHERE page = ?", keys)

    def _create(self, connection: sqlite3.Connection) -> None:
        with self.atomic():
            for statement in SCHEMA:
                connection.execute(statement)


def page_from_row(row: Sequence[Any]) -> StoredPage:
    page_id, space, identity, parent, tokens, checksums, origin, depth, *place = row
    return StoredPage(page_id, space, identity, parent, tokens, checksums, ORIGINS[origin], depth, Place(*place))


def _row(space: int, header: PageHeader, last_use: int) -> tuple[Any, ...]:
    place = header.place
    return (
        header.epoch, space, header.identity, header.parent, header.packed_tokens, header.packed_checksums,
        ORIGINS.index(header.origin), header.depth, place.segment, place.start, place.run_start, place.run_slots,
        last_use,
    )  # fmt: skip


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
