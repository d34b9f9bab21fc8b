"""The page store as its users see it; `octavo.storage.pages` says how to open one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace

from octavo.storage.lock import WriterLock
from octavo.storage.pagestore import opening, pins
from octavo.storage.pagestore.aligned_io import UNIT
from octavo.storage.pagestore.compaction import compact
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.erasing import forget
from octavo.storage.pagestore.records import HASH_BYTES, Shape
from octavo.storage.pagestore.room import remove_segment
from octavo.storage.pagestore.session import Session, flush
from octavo.storage.pagestore.space import Space
from octavo.storage.pagestore.verifying import VerifyReport, drop_damaged, verify

_PAGES_OF_OWNERS = (
    "SELECT owners.owner, pages.space, count(*), max(pages.last_use) FROM owners JOIN pages ON pages.id = owners.page "
    "GROUP BY owners.owner, pages.space"
)
_SHARED_PAGES_OF_OWNERS = (
    "SELECT owner, count(*) FROM owners WHERE page IN (SELECT page FROM owners GROUP BY page HAVING count(*) > 1) "
    "GROUP BY owner"
)


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A store at one moment; sizes in bytes. Counts begin when it is opened, except bytes_written_lifetime."""

    folder: str
    writable: bool
    direct: bool  # past the page cache
    bytes_on_disk: int
    bytes_in_pages: int  # of them; files grow in large steps
    index_bytes: int
    cap: int | None  # the last one that a writer was given
    num_pages: int
    num_segments: int
    num_spaces: int
    bytes_written_lifetime: int
    pages_written: int
    bytes_read: int
    hits: int
    misses: int
    read_failures: int
    evicted: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """What is cheap to know of a store at any time, in bytes; `written` and `read` since it was opened."""

    bytes_on_disk: int
    cap: int | None
    written: int
    read: int


@dataclass(frozen=True, slots=True)
class OwnerUse:
    """What an owner has in a store; `num_shared` of its pages are others', too. `last_use` is in ms since 1970; what is
    `pinned` is not given up for others' pages.
    """

    owner: str
    num_pages: int
    num_bytes: int
    num_shared: int
    last_use: int
    pinned: bool = False


class Store:
    """An open page store. Any thread may call any method."""

    def __init__(self, core: Core, lock: WriterLock | None) -> None:
        """`open_store` makes these."""
        self._session = Session(core, lock)
        self._written_before = core.totals["bytes_written"]

    @property
    def writable(self) -> bool:
        """Whether this process has the right to write."""
        return self._session.core.writable

    def open_space(
        self, root: bytes, settings: Mapping[str, object], num_layers: int, record_bytes: int, page_size: int
    ) -> Space:
        """The pages of the model that `root` (32 bytes) stands for, under exactly these settings (JSON values)."""
        if len(root) != HASH_BYTES:
            raise ValueError(f"a root is {HASH_BYTES} bytes")
        canonical = json.dumps(dict(settings), sort_keys=True, separators=(",", ":"))
        return Space(self._session, root, Shape(num_layers, record_bytes, page_size, canonical))

    def forget(self, owner: str) -> int:
        """Erase the pages that nobody but `owner` owns, in every space; returns the bytes freed.

        Raises PageStoreBusyError if this process only reads the store, and PageStoreError if the disk did not let all
        be erased: what is left is erased when the store is opened again.
        """
        return self._session.changing(lambda core: forget(core, owner))

    def pin(self, owner: str, pinned: bool = True) -> None:
        """Keep the pages of `owner`, those to come too, whatever others need; only a smaller cap may take them.

        Raises PageStoreError, PageStoreBusyError if this process only reads the store.
        """
        change = pins.pin if pinned else pins.unpin
        self._session.changing(lambda core: change(core, owner), settled=False)

    def pinned(self) -> frozenset[str]:
        """Owners whose pages are pinned; none if the index cannot be read."""
        try:
            return frozenset(self._session.core.index.pinned())
        except sqlite3.Error:
            return frozenset()

    def compact(self) -> int:
        """Move pages together and remove the segments that become empty; returns the bytes freed.

        Raises PageStoreError.
        """
        return self._session.changing(compact)

    def clear(self) -> int:
        """Remove every page; returns the bytes freed. Raises PageStoreError."""
        return self._session.changing(_clear)

    def flush(self) -> None:
        """Bring what was noted lazily (uses, damaged pages, counters) to the disk. Raises PageStoreError."""
        if self.writable:
            self._session.changing(flush)

    def verify(self) -> VerifyReport:
        """Read everything and check it. Raises PageStoreError if the index cannot be read."""
        core = self._session.core
        try:
            return verify(core)
        except sqlite3.Error as error:
            raise opening.told(core.folder, error) from error

    def drop_damaged(self) -> int:
        """Read everything, and erase the pages that are not what was written; how many there were.

        Raises PageStoreError.
        """
        return self._session.changing(drop_damaged)

    def stats(self) -> StoreStats:
        """What there is, and what was done. Raises PageStoreError if the index cannot be read."""
        core = self._session.core
        try:
            shapes = core.index.spaces()
            counts = dict(core.index.look("SELECT space, count(*) FROM pages GROUP BY space"))
            num_segments, num_units = core.index.look("SELECT count(*), coalesce(sum(units), 0) FROM segments")[0]
            recorded = core.index.counters()
        except sqlite3.Error as error:
            raise opening.told(core.folder, error) from error
        with core.noting:
            totals, problems = core.totals.copy(), tuple(core.problems)
        return StoreStats(
            folder=str(core.folder),
            writable=core.writable,
            direct=core.files.direct,
            bytes_on_disk=num_units * UNIT + core.index.num_bytes,
            bytes_in_pages=sum(
                number * shapes[space][1].page_bytes for space, number in counts.items() if space in shapes
            ),
            index_bytes=core.index.num_bytes,
            cap=core.cap or recorded.get("cap"),
            num_pages=sum(counts.values()),
            num_segments=num_segments,
            num_spaces=len(counts),
            bytes_written_lifetime=max(totals["bytes_written"], recorded.get("bytes_written", 0)),
            pages_written=totals["pages_written"],
            bytes_read=totals["bytes_read"],
            hits=totals["hits"],
            misses=totals["misses"],
            read_failures=totals["read_failures"],
            evicted=totals["evicted"],
            problems=problems,
        )

    def usage(self) -> StoreUsage:
        """Sizes without counting pages. Raises PageStoreError if the index cannot be read."""
        core = self._session.core
        try:
            units = (
                core.extents.num_units
                if core.writable
                else core.index.look("SELECT coalesce(sum(units), 0) FROM segments")[0][0]
            )
        except sqlite3.Error as error:
            raise opening.told(core.folder, error) from error
        with core.noting:
            written, read = core.totals["bytes_written"] - self._written_before, core.totals["bytes_read"]
        return StoreUsage(units * UNIT + core.index.num_bytes, core.cap, written, read)

    def owners(self) -> list[OwnerUse]:
        """Everyone who has pages, the largest first. Raises PageStoreError if the index cannot be read."""
        core = self._session.core
        if self.writable:
            self._session.changing(lambda _: None)  # what is under way may give pages to somebody
        try:
            sizes = {number: shape.page_bytes for number, (_, shape) in core.index.spaces().items()}
            rows = core.index.look(_PAGES_OF_OWNERS)
            shared = dict(core.index.look(_SHARED_PAGES_OF_OWNERS))
            pinned = core.index.pinned()
        except sqlite3.Error as error:
            raise opening.told(core.folder, error) from error
        found: dict[str, OwnerUse] = {}
        for owner, space, count, last_use in rows:
            known = found.get(owner, OwnerUse(owner, 0, 0, shared.get(owner, 0), 0, owner in pinned))
            num_bytes = known.num_bytes + count * sizes[space]
            last_use = max(known.last_use, last_use)
            found[owner] = replace(known, num_pages=known.num_pages + count, num_bytes=num_bytes, last_use=last_use)
        return sorted(found.values(), key=lambda use: -use.num_bytes)

    def close(self) -> None:
        """Finish the reads, flush, and give back the right to write; a second call does nothing."""
        self._session.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _clear(core: Core) -> int:
    before = core.num_bytes
    core.leases.wait(core.leases.held())
    for number in core.extents.segments:
        remove_segment(core, number)
    with core.index.atomic(durable=True) as connection:
        for table in ("pages", "owners", "forgetting"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
    pins.unpin_all(core)
    core.index.checkpoint()
    return before - core.num_bytes
