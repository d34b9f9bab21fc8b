"""Writing a batch of pages: long runs past the page cache, one sync, one commit, in that order.

While one run is on its way to the disk, the next is put together and checksummed, and the rows of both are prepared.
"""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer
from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.records import (
    HASH_BYTES,
    LONGEST_OWNER,
    ORIGINS,
    PageHeader,
    Place,
    pack_header,
    pack_numbers,
    record_checksum,
    record_seed,
)
from octavo.storage.pagestore.room import make_room

_RUN_BYTES = 1 << 20  # longest run of several pages in one write
_BUFFERS = 3
_FAILED = "The page could not be written"


class NewPage(Protocol):
    """A page to be kept: `data` is num_layers * record_bytes long, layer by layer."""

    @property
    def identity(self) -> bytes: ...
    @property
    def parent(self) -> bytes: ...
    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def owner(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def data(self) -> memoryview | bytes | bytearray: ...


@dataclass(slots=True)
class _Pending:
    """A page of the batch on its way: its number in the batch, its header, and its place."""

    number: int
    page: NewPage
    epoch: int
    depth: int
    place: Place


@dataclass(slots=True)
class _Run:
    pages: list[_Pending]
    written: Future[None]

    @property
    def segment(self) -> int:
        return self.pages[0].place.segment


class BatchWriter:
    """Writes batches for whoever holds the right to write, one at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(2, "octavo-store-write")
        self._buffers: queue.SimpleQueue[AlignedBuffer] = queue.SimpleQueue()
        for _ in range(_BUFFERS):
            self._buffers.put(AlignedBuffer(UNIT))

    def close(self) -> None:
        self._threads.shutdown()

    def write(self, space: SpaceKey, pages: Sequence[NewPage]) -> list[str | None]:
        """Keep the pages; for each None, or one sentence saying why not. Raises ValueError for one of a wrong shape."""
        for page in pages:
            _check(page, space)
        results: list[str | None] = [None] * len(pages)
        core = self._core
        known = core.index.find(space.number, [page.identity for page in pages])
        fresh: dict[bytes, int] = {}
        owned: list[tuple[int, NewPage]] = []  # (page id or, for a twin in this batch, minus its number; page)
        for number, page in enumerate(pages):
            first = known.get(page.identity)
            tokens = pack_numbers("I", page.token_ids)
            if first is not None or page.identity in fresh:
                kept = first.packed_tokens if first else pack_numbers("I", pages[fresh[page.identity]].token_ids)
                if kept != tokens:
                    results[number] = "The page was not kept: another page has this identity, but other tokens."
                else:
                    owned.append((number, page))
            else:
                fresh[page.identity] = number
        places, reason = make_room(core, space, len(fresh))
        numbers = list(fresh.values())
        for number in numbers[len(places) :]:
            results[number] = reason
        pending = self._pending(space, [(number, pages[number]) for number in numbers[: len(places)]], places)
        ids = {identity: page.page_id for identity, page in known.items()}
        ids |= {each.page.identity: each.epoch for each in pending}
        owners = [(ids[page.identity], page.owner) for _, page in owned if page.identity in ids]
        for number, page in owned:
            if page.identity not in ids:
                results[number] = reason
        self._write_pending(space, pending, owners, results)
        return results

    def _pending(
        self, space: SpaceKey, pages: Sequence[tuple[int, NewPage]], places: Sequence[Place]
    ) -> list[_Pending]:
        depths = {page.identity: page.depth for page in self._core.index.find(
            space.number, list({page.parent for _, page in pages})).values()}  # fmt: skip
        pending = []
        for (number, page), place in zip(pages, places, strict=True):
            depth = depths[page.identity] = depths.get(page.parent, -1) + 1
            pending.append(_Pending(number, page, self._core.next_epoch(), depth, place))
        return pending

    def _write_pending(
        self, space: SpaceKey, pending: list[_Pending], owners: list[tuple[int, str]], results: list[str | None]
    ) -> None:
        core, runs, kept = self._core, list[_Run](), set[int]()
        try:
            with core.index.atomic() as connection:
                try:
                    at = now()
                    for pages in _neighbours(pending, space.shape.page_units):
                        headers = self._send(space, pages, runs)
                        for header in headers:
                            core.index.insert(connection, space.number, header, at)
                finally:
                    wait([run.written for run in runs])
                failed = self._failed(runs, results)
                core.index.delete(connection, [each.epoch for each in pending if each.number in failed])
                lost = {each.epoch for each in pending if each.number in failed}
                for page_id, owner in owners:
                    if page_id not in lost:
                        core.index.add_owners(connection, [page_id], owner)
                core.add(bytes_written=len(pending) * space.shape.page_bytes, pages_written=len(pending) - len(failed))
                core.write_uses(connection)
                core.write_counters(connection)
            kept = {each.number for each in pending} - failed
        except sqlite3.Error as error:
            for each in pending:
                results[each.number] = results[each.number] or f"{_FAILED}: the index refused it ({error})."
            core.index_is_damaged |= _is_damage(error)
        finally:
            for each in pending:
                if each.number not in kept:
                    core.extents.release(each.place)

    def _send(self, space: SpaceKey, pages: list[_Pending], runs: list[_Run]) -> list[PageHeader]:
        """Put neighbouring pages together and hand them to a writing thread."""
        num_bytes = space.shape.page_bytes
        buffer = self._buffers.get()
        if len(buffer) < len(pages) * num_bytes:
            buffer = AlignedBuffer(len(pages) * num_bytes)
        try:
            headers = [
                _fill(space, each, buffer, position * num_bytes, self._core.totals["bytes_written"])
                for position, each in enumerate(pages)
            ]
            view = buffer.view[: len(pages) * num_bytes]
            place = pages[0].place
            written = self._threads.submit(self._core.files.write, place.segment, view, place.start)
        except BaseException:
            self._buffers.put(buffer)
            raise
        written.add_done_callback(_giving_back(self._buffers, buffer))
        runs.append(_Run(pages, written))
        return headers

    def _failed(self, runs: Sequence[_Run], results: list[str | None]) -> set[int]:
        """Sync what was written; numbers of the pages that did not reach the disk, with the reason in `results`."""
        unsynced: dict[int, OSError] = {}
        for segment in {run.segment for run in runs}:
            try:
                self._core.files.sync(segment)
            except OSError as error:
                unsynced[segment] = error
        failed = set[int]()
        for run in runs:
            problem = run.written.exception() or unsynced.get(run.segment)
            if problem is None:
                continue
            if not isinstance(problem, OSError):
                raise problem
            reason = why_not(_FAILED, problem)
            self._core.note(reason)
            for each in run.pages:
                failed.add(each.number)
                results[each.number] = reason
        return failed


def _giving_back(buffers: queue.SimpleQueue[AlignedBuffer], buffer: AlignedBuffer) -> Callable[[Future[None]], None]:
    return lambda _: buffers.put(buffer)


def _check(page: NewPage, space: SpaceKey) -> None:
    shape = space.shape
    if len(page.identity) != HASH_BYTES or len(page.parent) != HASH_BYTES:
        raise ValueError(f"identity and parent of a page are {HASH_BYTES} bytes")
    if memoryview(page.data).nbytes != shape.num_layers * shape.record_bytes:
        raise ValueError(f"the page's data must be {shape.num_layers} x {shape.record_bytes} bytes")
    if len(page.token_ids) != shape.page_size or page.origin not in ORIGINS:
        raise ValueError(f"a page has {shape.page_size} token ids, and its origin is one of {ORIGINS}")
    if not 0 < len(page.owner.encode()) <= LONGEST_OWNER:
        raise ValueError(f"an owner is named by 1 to {LONGEST_OWNER} bytes")


def _neighbours(pending: Sequence[_Pending], page_units: int) -> Iterator[list[_Pending]]:
    """Cut the pages into stretches that touch on the disk, each short enough for one write."""
    most = max(_RUN_BYTES // (page_units * UNIT), 1)
    stretch: list[_Pending] = []
    for each in pending:
        if stretch:
            last = stretch[-1].place
            touching = (last.segment, last.start + page_units) == (each.place.segment, each.place.start)
            if len(stretch) == most or not touching:
                yield stretch
                stretch = []
        stretch.append(each)
    if stretch:
        yield stretch


def _fill(space: SpaceKey, each: _Pending, buffer: AlignedBuffer, at: int, bytes_written: int) -> PageHeader:
    """Lay a page out in `buffer` from byte `at`, and return its header."""
    shape, page = space.shape, each.page
    data = memoryview(page.data).cast("B")
    seed = record_seed(page.identity, each.epoch)
    size = shape.record_bytes
    checksums = tuple(
        record_checksum(data[layer * size : (layer + 1) * size], seed, layer) for layer in range(shape.num_layers)
    )
    header = PageHeader(
        each.epoch, bytes_written, each.place, each.depth, page.origin, space.root, page.identity, page.parent,
        page.owner, tuple(page.token_ids), checksums, shape,
    )  # fmt: skip
    packed = pack_header(header)
    buffer.view[at : at + len(packed)] = packed
    buffer.array[at + len(packed) : at + shape.header_bytes] = 0
    body = buffer.array[at + shape.header_bytes : at + shape.page_bytes].reshape(shape.num_layers, shape.stride)
    body[:, :size] = np.frombuffer(data, dtype=np.uint8).reshape(shape.num_layers, size)
    body[:, size:] = 0
    return header


def _is_damage(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
