"""Writing a batch of pages: long runs past the page cache, one sync, one commit, in that order.

A few threads lay runs out, checksum and write them, some while the disk is busy with the runs of others; the rows go
into the index meanwhile, and are committed when everything is on the disk.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from octavo.storage.pagestore.aligned_io import UNIT, ThreadBuffers
from octavo.storage.pagestore.batch import Batch
from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.indexfile import is_damage
from octavo.storage.pagestore.laying import NewPage, Placed, lay_page
from octavo.storage.pagestore.records import PageHeader

THREADS = 3
RUN_BYTES = 1 << 20  # longest run of several pages in one write
_FAILED = "The page could not be written"


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
        self._laying = threading.Lock()

    def close(self) -> None:
        self._threads.shutdown()

    def write(self, space: SpaceKey, pages: Sequence[NewPage]) -> list[str | None]:
        """Keep the pages; for each None, or one sentence saying why not.

        Raises ValueError for a page of a wrong shape, and sqlite3.Error if the index does not even let room be made.
        """
        batch, kept = Batch(self._core, space, pages), set[int]()
        runs: list[_Run] = []
        try:
            runs += [self._send(space, run) for run in _neighbours(batch.placed(), space.shape.page_units)]
            kept = self._commit(batch, runs)
        except sqlite3.Error as error:
            self._core.index_is_damaged |= is_damage(error)
            reason = f"{_FAILED}: the index did not take it ({error})."
            self._core.note(reason)
            batch.fail_all(reason)
        finally:
            # Nothing may be writing to a place that is given back.
            wait([run.written for run in runs])
            for (number, _, _), place in zip(batch.new, batch.places, strict=False):
                if number not in kept:
                    self._core.extents.release(place)
        return batch.results

    def _send(self, space: SpaceKey, pages: list[Placed]) -> _Run:
        return _Run(pages, self._threads.submit(self._write_run, space, pages))

    def _write_run(self, space: SpaceKey, pages: list[Placed]) -> list[PageHeader]:
        """On a writing thread: lay the pages out side by side, and write them at once. Raises OSError."""
        num_bytes = space.shape.page_bytes
        buffer = self._buffers.at_least(len(pages) * num_bytes)
        parts = [buffer.array[begin : begin + num_bytes] for begin in range(0, len(pages) * num_bytes, num_bytes)]
        # One thread at a time: several that want the interpreter and the memory by turns are slower than one alone.
        with self._laying:
            headers = [lay_page(space, each, part) for each, part in zip(pages, parts, strict=True)]
        place = pages[0].place
        self._core.files.write(place.segment, buffer.view[: len(pages) * num_bytes], place.start)
        return headers

    def _commit(self, batch: Batch, runs: Sequence[_Run]) -> set[int]:
        """The numbers of the pages that are kept, when they are. Raises sqlite3.Error, with nothing kept then."""
        core, number, at = self._core, batch.space.number, now()
        placed = [each for run in runs for each in run.pages]
        early = max(len(runs) - THREADS, 0)
        with core.index.atomic() as connection:
            for run in runs[:early]:
                self._insert(connection, number, run, at)
            wait([run.written for run in runs])
            segments = {run.segment for run in runs}
            syncs = {segment: self._threads.submit(core.files.sync, segment) for segment in segments}
            for run in runs[early:]:
                self._insert(connection, number, run, at)
            failed = self._failed(batch, runs, syncs)
            core.index.delete(connection, [each.epoch for each in placed if each.number in failed])
            self._share(connection, batch, [each for each in placed if each.number not in failed])
            written = len(placed) * batch.space.shape.page_bytes
            core.add(bytes_written=written, pages_written=len(placed) - len(failed))
            core.write_uses(connection)
            core.write_counters(connection)
        return {each.number for each in placed} - failed

    def _insert(self, connection: sqlite3.Connection, space: int, run: _Run, at: int) -> None:
        """Add the rows of a run when it is written, if it could be."""
        if run.written.exception() is None:
            with self._laying:
                self._core.index.insert(connection, space, run.written.result(), at)

    def _share(self, connection: sqlite3.Connection, batch: Batch, kept: Iterable[Placed]) -> None:
        """Give the pages that were there, and those that are twice in the batch, the owners of their twins, too."""
        ids = batch.known | {each.page.identity: each.epoch for each in kept}
        for number, page in batch.twins:
            if page.identity in ids:
                self._core.index.add_owners(connection, [ids[page.identity]], page.owner)
            else:
                batch.results[number] = f"{_FAILED}: its twin in the same batch could not be, either."

    def _failed(self, batch: Batch, runs: Sequence[_Run], syncs: Mapping[int, Future[None]]) -> set[int]:
        """Numbers of the pages that did not reach the disk, with the reason among the batch's results."""
        failed = set[int]()
        for run in runs:
            problem = run.written.exception() or syncs[run.segment].exception()
            if problem is None:
                continue
            if not isinstance(problem, OSError):
                raise problem
            reason = why_not(_FAILED, problem)
            self._core.note(reason)
            for each in run.pages:
                failed.add(each.number)
                batch.results[each.number] = reason
        return failed


def _neighbours(placed: Iterable[Placed], page_units: int) -> Iterator[list[Placed]]:
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
