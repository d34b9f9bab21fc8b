"""The page store: what its users call. See `octavo.storage.pages` for how to open one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from octavo.storage.lock import WriterLock
from octavo.storage.pagestore import opening
from octavo.storage.pagestore.compaction import compact
from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.erasing import drop_bad, erase, forget
from octavo.storage.pagestore.errors import PageStoreBusyError, PageStoreError
from octavo.storage.pagestore.index import StoredPage, is_damage
from octavo.storage.pagestore.laying import NewPage
from octavo.storage.pagestore.reading import PageReader, Read
from octavo.storage.pagestore.records import HASH_BYTES, Shape
from octavo.storage.pagestore.room import enforce_cap, remove_segment
from octavo.storage.pagestore.verifying import VerifyReport, verify
from octavo.storage.pagestore.writing import BatchWriter


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A store at one moment; sizes in bytes. What is not "lifetime" counts from when it was opened."""

    folder: str
    writable: bool
    direct: bool  # past the page cache
    bytes_on_disk: int
    index_bytes: int
    cap: int | None
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


class Space:
    """The pages of one model under one set of settings. Any thread may call any method."""

    def __init__(self, store: Store, root: bytes, shape: Shape, number: int | None) -> None:
        self._store = store
        self._root = root
        self._number = number  # None: this process only reads, and nobody has written to the space yet
        self.shape = shape

    @property
    def max_pages(self) -> int:
        """Pages of this space that the cap has room for; an eighth of it is left to the index and to odd ends."""
        return (self._store._core.cap or 0) * 7 // 8 // self.shape.page_bytes

    def find(self, identities: Sequence[bytes]) -> list[StoredPage | None]:
        """For each identity the committed page, if there is one; that it was used is noted."""
        return self._store._find(self, identities)

    def write(self, pages: Sequence[NewPage]) -> list[str | None]:
        """Keep a batch of pages; for each None, or one sentence saying why it was not kept.

        On return what was kept is on the disk and committed. The first page under an identity stays, and gains the
        owner of every later one. Raises ValueError for a page that is not of this space's shape; never for the disk.
        """
        return self._store._write(self, pages)

    def read(self, reads: Sequence[Read]) -> list[str | None]:
        """`submit_read`, waited for."""
        return self.submit_read(reads).result()

    def submit_read(self, reads: Sequence[Read]) -> Future[list[str | None]]:
        """Read layers of pages on the reading threads: (page, first layer, layers, buffer of layers * record_bytes).

        For each None, or one sentence saying why its buffer holds nothing of use; a damaged page is served no more.
        """
        return self._store._reader.submit(self.shape, reads)

    def add_owner(self, identities: Sequence[bytes], owner: str) -> None:
        """Let `owner` own these pages, too, so that they stay when another owner is forgotten."""
        self._store._add_owner(self, identities, owner)

    def drop(self, identities: Sequence[bytes]) -> None:
        """Erase these pages, whoever owns them."""
        self._store._drop(self, identities)

    def key(self) -> SpaceKey | None:
        core = self._store._core
        if self._number is None:
            self._number = core.index.space(self._root, self.shape)
        return None if self._number is None else SpaceKey(self._number, self._root, self.shape)


class Store:
    """An open page store. Any thread may call any method; errors of the disk never pass into look-ups and reads."""

    def __init__(self, core: Core, lock: WriterLock | None) -> None:
        """`open_store` makes these."""
        self._core = core
        self._lock = lock
        self._reader = PageReader(core)
        self._writer = BatchWriter(core)
        self._spaces: list[Space] = []
        self._closed = False

    @property
    def writable(self) -> bool:
        """Whether this process has the right to write."""
        return self._core.writable

    def open_space(
        self, root: bytes, settings: Mapping[str, object], num_layers: int, record_bytes: int, page_size: int
    ) -> Space:
        """The pages of the model that `root` stands for, under exactly these settings (JSON values)."""
        if len(root) != HASH_BYTES:
            raise ValueError(f"a root is {HASH_BYTES} bytes")
        canonical = json.dumps(dict(settings), sort_keys=True, separators=(",", ":"))
        shape = Shape(num_layers, record_bytes, page_size, canonical)
        core = self._core
        try:
            with core.writing:
                number = core.index.add_space(root, shape) if core.writable else core.index.space(root, shape)
        except sqlite3.Error as error:
            raise opening.told(core.folder, error) from error
        space = Space(self, root, shape, number)
        self._spaces.append(space)
        return space

    def forget(self, owner: str) -> int:
        """Erase the pages that nobody but `owner` owns, in every space; returns the bytes freed.

        Raises PageStoreBusyError if another process writes the store, and PageStoreError if the disk did not let all
        be erased: what is left is erased when the store is opened again.
        """
        return self._changing(lambda core: forget(core, owner))

    def compact(self) -> int:
        """Move pages together and remove the segments that become empty; returns the bytes freed."""
        return self._changing(compact)

    def clear(self) -> int:
        """Remove every page; returns the bytes freed. Raises StorageError."""
        return self._changing(_clear)

    def verify(self) -> VerifyReport:
        """Read everything and check it. Raises StorageError if the index cannot be read."""
        try:
            return verify(self._core)
        except sqlite3.Error as error:
            raise opening.told(self._core.folder, error) from error

    def flush(self) -> None:
        """Bring what was noted lazily (uses, damaged pages, counters) to the disk."""
        if self._core.writable:
            self._changing(_flush)

    def stats(self) -> StoreStats:
        core = self._core
        try:
            num_pages = core.index.look("SELECT count(*) FROM pages")[0][0]
            segments = core.index.look("SELECT count(*), coalesce(sum(units), 0) FROM segments")[0]
            num_spaces = core.index.look("SELECT count(DISTINCT space) FROM pages")[0][0]
        except sqlite3.Error as error:
            raise opening.told(core.folder, error) from error
        with core.noting:
            totals, problems = core.totals.copy(), tuple(core.problems)
        return StoreStats(
            folder=str(core.folder),
            writable=core.writable,
            direct=core.files.direct,
            bytes_on_disk=segments[1] * 4096 + core.index.num_bytes,
            index_bytes=core.index.num_bytes,
            cap=core.cap,
            num_pages=num_pages,
            num_segments=segments[0],
            num_spaces=num_spaces,
            bytes_written_lifetime=totals["bytes_written"],
            pages_written=totals["pages_written"],
            bytes_read=totals["bytes_read"],
            hits=totals["hits"],
            misses=totals["misses"],
            read_failures=totals["read_failures"],
            evicted=totals["evicted"],
            problems=problems,
        )

    def close(self) -> None:
        """Finish the reads, flush, and give back the right to write; a second call does nothing."""
        with self._core.writing:
            if self._closed:
                return
            self._closed = True
        self._reader.close()
        self._writer.close()
        try:
            if self._core.writable:
                with self._core.writing:
                    _flush(self._core)
                    self._core.index.checkpoint()
        except (OSError, sqlite3.Error) as error:
            self._core.note(str(opening.told(self._core.folder, error)))
        finally:
            self._core.index.close()
            self._core.files.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _changing(self, change: Callable[[Core], object]) -> int:
        core = self._core
        with core.writing:
            if not core.writable:
                raise PageStoreBusyError(f"The page store {core.folder} is open for reading only.")
            if self._closed:
                raise PageStoreError(f"The page store {core.folder} is closed.")
            try:
                self._mend()
                result = change(core)
            except (OSError, sqlite3.Error) as error:
                raise opening.told(core.folder, error) from error
        return result if isinstance(result, int) else 0

    def _mend(self) -> None:
        """Make a damaged index again. Raises OSError, sqlite3.Error."""
        core = self._core
        if core.index_is_damaged:
            opening.rebuild(core)
            for space in self._spaces:
                space._number = core.index.add_space(space._root, space.shape)

    def _find(self, space: Space, identities: Sequence[bytes]) -> list[StoredPage | None]:
        core = self._core
        try:
            key = space.key()
            found = core.index.find(key.number, identities) if key is not None else {}
        except sqlite3.Error as error:
            core.index_is_damaged |= is_damage(error)
            core.note(f"The index of the page store could not be read: {error}.")
            found = {}
        at = now()
        with core.noting:
            pages = [found.get(identity) for identity in identities]
            pages = [None if page is None or page.page_id in core.bad else page for page in pages]
            hits = [page.page_id for page in pages if page is not None]
            core.totals.update(hits=len(hits), misses=len(pages) - len(hits))
            if core.writable:
                core.uses.update(dict.fromkeys(hits, at))
        return pages

    def _write(self, space: Space, pages: Sequence[NewPage]) -> list[str | None]:
        core = self._core
        with core.writing:
            if not core.writable or self._closed:
                return [f"The page store {core.folder} is open for reading only."] * len(pages)
            try:
                self._mend()
                drop_bad(core)
                enforce_cap(core)
                key = space.key()
                assert key is not None
                return self._writer.write(key, pages)
            except (OSError, sqlite3.Error, PageStoreError) as error:
                reason = str(opening.told(core.folder, error))
                core.note(reason)
                return [reason] * len(pages)

    def _add_owner(self, space: Space, identities: Sequence[bytes], owner: str) -> None:
        def change(core: Core) -> None:
            key = space.key()
            found = core.index.find(key.number, identities) if key is not None else {}
            with core.index.atomic() as connection:
                core.index.add_owners(connection, [page.page_id for page in found.values()], owner)

        if self._core.writable:
            self._changing(change)

    def _drop(self, space: Space, identities: Sequence[bytes]) -> None:
        core, key = self._core, space.key()
        pages = list(core.index.find(key.number, identities).values()) if key is not None else []
        for page in pages:
            core.mark_bad(page)
        if core.writable:
            self._changing(lambda core: erase(core, pages))


def _flush(core: Core) -> None:
    drop_bad(core)
    with core.index.atomic() as connection:
        core.write_uses(connection)
        core.write_counters(connection)


def _clear(core: Core) -> int:
    before = core.num_bytes
    core.leases.wait(core.leases.held())
    with core.index.atomic(durable=True) as connection:
        for table in ("pages", "owners", "forgetting"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
    for number in core.extents.segments:
        remove_segment(core, number)
    core.index.checkpoint()
    return before - core.num_bytes
