"""Writing batches of pages: long runs past the page cache, one sync, one commit, in that order, for each batch.

A few threads checksum runs of pages and write them; another one syncs what is written and commits its rows. So the
disk is busy with one batch while the next is being checksummed and the rows of the one before are committed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from octavo.storage.pagestore.aligned_io import UNIT, ThreadBuffers, address
from octavo.storage.pagestore.batch import Batch
from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.indexfile import is_damage
from octavo.storage.pagestore.laying import NewPage, Placed, lay_page, spare_bytes
from octavo.storage.pagestore.records import PageHeader

THREADS = 6  # enough that some checksum while others are in the disk
RUN_BYTES = 2 << 20  # longest run of several pages in one write
_MOST_PAGES = 300  # in a run: each is three parts of memory, of which a write may have 1,024
_BATCHES = 3  # under way: one being committed, one being written, one to go on with
_FAILED = "The page could not be written"


@dataclass(frozen=True, slots=True)
class _Run:
    """Pages that touch on the disk, and the writing of them."""

    pages: list[Placed]
    written: Future[list[PageHeader]]

    @property
    def segment(self) -> int:
        return self.pages[0].place.segment


class BatchWriter:
    """Writes batches for whoever holds the right to write, several at a time, and commits them in order."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(THREADS, "octavo-store-write")
        self._committing = ThreadPoolExecutor(1, "octavo-store-commit")
        self._spare = ThreadBuffers()

    def close(self) -> None:
        """Wait for what is under way."""
        self._committing.shutdown()
        self._threads.shutdown()

    def submit(self, space: SpaceKey, pages: Sequence[NewPage]) -> Future[list[str | None]]:
        """Begin to keep the pages; for each None, or one sentence saying why not.

        Raises ValueError for a page of a wrong shape, and sqlite3.Error if the index does not even let room be made.
        """
        self._core.under_way.wait(_BATCHES - 1)
        batch = Batch(self._core, space, pages)
        runs = [
            _Run(stretch, self._threads.submit(self._write_run, space, stretch))
            for stretch in _neighbours(batch.placed(), space.shape.page_units)
        ]
        future = self._committing.submit(self._finish, batch, runs)
        self._core.under_way.add(future, batch.depths)
        return future

    def do_later(self, work: Callable[[], None]) -> None:
        """Let the thread that commits do something to the index, after the batches that are under way."""

        def done() -> list[str | None]:
            work()
            return []

        self._core.under_way.add(self._committing.submit(done), {})

    def _write_run(self, space: SpaceKey, pages: list[Placed]) -> list[PageHeader]:
        """On a writing thread: checksum the pages, and write them at once. Raises OSError."""
        files, shape, place = self._core.files, space.shape, pages[0].place
        aligned = [address(each.page.data) % files.memory_unit == 0 for each in pages]
        sizes = [spare_bytes(shape, is_aligned=each) for each in aligned]
        spare = self._spare.at_least(sum(sizes)).view
        headers: list[PageHeader] = []
        parts: list[memoryview] = []
        for each, size, is_aligned in zip(pages, sizes, aligned, strict=True):
            header, memory = lay_page(space, each, spare[:size], is_aligned=is_aligned)
            headers.append(header)
            parts += memory
            spare = spare[size:]
        files.write_gathered(place.segment, parts, place.start)
        return headers

    # On the thread that commits

    def _finish(self, batch: Batch, runs: Sequence[_Run]) -> list[str | None]:
        """The results of the batch, when all of it is on the disk or has failed."""
        kept: frozenset[int] = frozenset()
        try:
            wait([run.written for run in runs])  # nothing may be writing to a place that is given back
            kept = self._commit(batch, runs)
        except sqlite3.Error as error:
            self._core.index_is_damaged |= is_damage(error)
            reason = f"{_FAILED}: the index did not take it ({error})."
            self._core.note(reason)
            batch.fail_all(reason)
        finally:
            for (number, _, _), place in zip(batch.new, batch.places, strict=False):
                if number not in kept:
                    self._core.not_kept.append(place)
        return batch.results

    def _commit(self, batch: Batch, runs: Sequence[_Run]) -> frozenset[int]:
        """The numbers of the pages that are kept, when they are. Raises sqlite3.Error, with nothing kept then."""
        core, at = self._core, now()
        syncs = {segment: _outcome(core.files.sync, segment) for segment in {run.segment for run in runs}}
        failed = self._failed(batch, runs, syncs)
        kept = [each for run in runs for each in run.pages if each.number not in failed]
        with core.index.atomic() as connection:
            for run in runs:
                if run.pages[0].number not in failed:
                    core.index.insert(connection, batch.space.number, run.written.result(), at)
            self._share(connection, batch, kept)
            core.add(pages_written=len(kept))
            core.write_uses(connection)
            core.write_counters(connection)
        return frozenset(each.number for each in kept)

    def _share(self, connection: sqlite3.Connection, batch: Batch, kept: Iterable[Placed]) -> None:
        """Give the pages that were there, and those that are twice in the batch, the owners of their twins, too."""
        ids = batch.known | {each.page.identity: each.epoch for each in kept}
        for number, page in batch.twins:
            if page.identity in ids:
                self._core.index.add_owners(connection, [ids[page.identity]], page.owner)
            else:
                batch.results[number] = f"{_FAILED}: its twin in the same batch could not be, either."

    def _failed(self, batch: Batch, runs: Sequence[_Run], syncs: Mapping[int, OSError | None]) -> frozenset[int]:
        """Numbers of the pages that did not reach the disk, with the reason among the batch's results."""
        failed = set[int]()
        for run in runs:
            problem = run.written.exception() or syncs[run.segment]
            if problem is None:
                continue
            if not isinstance(problem, OSError):
                raise problem
            reason = why_not(_FAILED, problem)
            self._core.note(reason)
            for each in run.pages:
                failed.add(each.number)
                batch.results[each.number] = reason
        return frozenset(failed)


def _outcome(sync: Callable[[int], None], segment: int) -> OSError | None:
    """Why a segment could not be synced."""
    try:
        sync(segment)
    except OSError as error:
        return error
    return None


def _neighbours(placed: Iterable[Placed], page_units: int) -> Iterator[list[Placed]]:
    """Cut the pages into stretches that touch on the disk, each short enough for one write."""
    most = max(min(RUN_BYTES // (page_units * UNIT), _MOST_PAGES), 1)
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
