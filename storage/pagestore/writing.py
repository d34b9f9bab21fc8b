"""Writing a batch of pages: long runs past the page cache, one sync, one commit, in that order.

Two threads lay runs out, checksum and write them, one while the disk is busy with the other run; the rows of a run go
into the index meanwhile, and are committed when everything is on the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from octavo.storage.pagestore.aligned_io import UNIT, ThreadBuffers
from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.index import is_damage
from octavo.storage.pagestore.laying import NewPage, Placed, check_page, lay_page
from octavo.storage.pagestore.records import PageHeader, pack_numbers
from octavo.storage.pagestore.room import make_room

THREADS = 2
RUN_BYTES = 1 << 20  # longest run of several pages in one write
_FAILED = "The page could not be written"
_OTHER_TOKENS = "The page was not kept: another page has its identity, but other tokens."


@dataclass(slots=True)
class _Sorted:
    """A batch by what is to be done with each page: `new` ones, and `twins` of a page that has the same identity."""

    new: list[tuple[int, NewPage]]
    twins: list[tuple[int, NewPage]]
    known: dict[bytes, int]  # identity -> page id of those in the store


@dataclass(slots=True)
class _Run:
    """Pages that touch on the disk, and the writing of them."""

    pages: list[Placed]
    written: Future[list[PageHeader]]

    @property
    def segment(self) -> int:
        return self.pages[0].place.segment


class BatchWriter:
    """Writes batches for whoever holds the right to write, one at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(THREADS, "octavo-store-write")
        self._buffers = ThreadBuffers()

    def close(self) -> None:
        self._threads.shutdown()

    def write(self, space: SpaceKey, pages: Sequence[NewPage]) -> list[str | None]:
        """Keep the pages; for each None, or one sentence saying why not.

        Raises ValueError for a page of a wrong shape, and sqlite3.Error if the index does not even let room be made.
        """
        for page in pages:
            check_page(page, space)
        results: list[str | None] = [None] * len(pages)
        batch = self._sort(space, pages, results)
        depths = self._depths(space, batch.new)
        # Making room must not cost a page that this batch goes on from, or is about to share.
        self._core.leases.hold(batch.known.values())
        try:
            places, reason = make_room(self._core, space, len(batch.new))
        finally:
            self._core.leases.release(batch.known.values())
        for number, _ in batch.new[len(places) :]:
            results[number] = reason
        placed: list[Placed] = []
        written = self._core.totals["bytes_written"]
        for (number, page), place in zip(batch.new, places, strict=False):
            depths[page.identity] = depth = depths.get(page.parent, -1) + 1
            placed.append(Placed(number, page, self._core.next_epoch(), depth, place, written))
            written += space.shape.page_bytes
        kept: set[int] = set()
        try:
            kept = self._write_placed(space, placed, batch, results)
        except sqlite3.Error as error:
            self._core.index_is_damaged |= is_damage(error)
            reason = f"{_FAILED}: the index did not take it ({error})."
            self._core.note(reason)
            results = [result or reason for result in results]
        finally:
            for each in placed:
                if each.number not in kept:
                    self._core.extents.release(each.place)
        return results

    def _sort(self, space: SpaceKey, pages: Sequence[NewPage], results: list[str | None]) -> _Sorted:
        known = self._core.index.find(space.number, [page.identity for page in pages])
        tokens = {identity: page.packed_tokens for identity, page in known.items()}
        batch = _Sorted([], [], {identity: page.page_id for identity, page in known.items()})
        self._core.use(batch.known.values(), now())
        for number, page in enumerate(pages):
            packed = pack_numbers("I", page.token_ids)
            if page.identity not in tokens:
                tokens[page.identity] = packed
                batch.new.append((number, page))
            elif tokens[page.identity] == packed:
                batch.twins.append((number, page))
            else:
                results[number] = _OTHER_TOKENS
        return batch

    def _depths(self, space: SpaceKey, pages: Sequence[tuple[int, NewPage]]) -> dict[bytes, int]:
        """Depths of the parents that are in the store; that they were used is noted."""
        parents = self._core.index.find(space.number, list({page.parent for _, page in pages}))
        self._core.use((page.page_id for page in parents.values()), now())
        return {page.identity: page.depth for page in parents.values()}

    def _write_placed(
        self, space: SpaceKey, placed: list[Placed], batch: _Sorted, results: list[str | None]
    ) -> set[int]:
        """Write and commit; the numbers of the pages that are kept. Raises sqlite3.Error, with nothing kept then."""
        core, at = self._core, now()
        runs = [self._send(space, pages) for pages in _neighbours(placed, space.shape.page_units)]
        try:
            with core.index.atomic() as connection:
                for run in runs:
                    if run.written.exception() is None:
                        core.index.insert(connection, space.number, run.written.result(), at)
                failed = self._failed(runs, results)
                core.index.delete(connection, [each.epoch for each in placed if each.number in failed])
                ids = batch.known | {each.page.identity: each.epoch for each in placed if each.number not in failed}
                for number, page in batch.twins:
                    if page.identity in ids:
                        core.index.add_owners(connection, [ids[page.identity]], page.owner)
                    else:
                        results[number] = f"{_FAILED}, for its twin in the same batch could not."
                core.add(bytes_written=len(placed) * space.shape.page_bytes, pages_written=len(placed) - len(failed))
                core.write_uses(connection)
                core.write_counters(connection)
        finally:
            # Places are given back after this, and must not be written to any more.
            wait([run.written for run in runs])
        return {each.number for each in placed} - failed

    def _send(self, space: SpaceKey, pages: list[Placed]) -> _Run:
        return _Run(pages, self._threads.submit(self._write_run, space, pages))

    def _write_run(self, space: SpaceKey, pages: list[Placed]) -> list[PageHeader]:
        """On a writing thread: lay the pages out side by side, and write them at once. Raises OSError."""
        num_bytes = space.shape.page_bytes
        buffer = self._buffers.at_least(len(pages) * num_bytes)
        headers = [
            lay_page(space, each, buffer.array[position * num_bytes : (position + 1) * num_bytes])
            for position, each in enumerate(pages)
        ]
        place = pages[0].place
        self._core.files.write(place.segment, buffer.view[: len(pages) * num_bytes], place.start)
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


def _neighbours(placed: Sequence[Placed], page_units: int) -> Iterator[list[Placed]]:
    """Cut the pages into stretches that touch on the disk, each short enough for one write."""
    most = max(RUN_BYTES // (page_units * UNIT), 1)
    stretch: list[Placed] = []
    for each in placed:
        if stretch:
            last = stretch[-1].place
            touching = (last.segment, last.start + page_units) == (each.place.segment, each.place.start)
            if len(stretch) == most or not touching:
                yield stretch
                stretch = []
        stretch.append(each)
    if stretch:
        yield stretch
