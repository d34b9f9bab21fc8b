"""Reading pages: neighbours in one long read, on a few threads, and every record checked before anybody sees it.

Bytes of whole pages go from the disk straight to where they are wanted, and are checked there.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer, ThreadBuffers
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import is_passing, why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.pieces import Piece, joined, plan_read
from octavo.storage.pagestore.records import Shape

THREADS = 8  # enough that some are in the disk while others check
_GONE = "The page is no longer in the store."
_NOT_READ = "The page was not read."

Read = tuple[StoredPage, int, int, memoryview]


class _Batch:
    """The reads of one call. Its future is done when the last job is, not before: buffers are written to until then."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.future: Future[list[str | None]] = Future()
        self.future.set_running_or_notify_cancel()  # it cannot be cancelled
        self.results: list[str | None] = [_NOT_READ] * len(pieces)
        self.page_ids = [piece.page.page_id for piece in pieces]
        self.problem: BaseException | None = None
        self.jobs = deque(joined(pieces))
        self.num_left = len(self.jobs)

    def next_job(self) -> list[Piece] | None:
        """A run of pieces that nobody has taken yet."""
        try:
            return self.jobs.popleft()
        except IndexError:
            return None


class PageReader:
    """Reads for any thread, on a few of its own: while some are in the disk, others check what they have read."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(THREADS, "octavo-store-read")
        self._buffers = ThreadBuffers()
        self._ending = threading.Lock()

    def close(self) -> None:
        """Wait for the reads that were asked for."""
        self._threads.shutdown()

    def submit(self, shape: Shape, reads: Sequence[Read]) -> Future[list[str | None]]:
        """For each read None, or one sentence saying why its buffer holds nothing of use.

        Raises ValueError for layers a page does not have, and for a buffer of another size.
        """
        pieces = []
        for number, (page, first_layer, num_layers, out) in enumerate(reads):
            view = memoryview(out).cast("B")
            if not 0 <= first_layer < first_layer + num_layers <= shape.num_layers:
                raise ValueError(f"a page has {shape.num_layers} layers, not {first_layer + num_layers}")
            if len(view) != num_layers * shape.record_bytes:
                raise ValueError(f"the buffer must be {num_layers} x {shape.record_bytes} bytes")
            pieces.append(Piece(number, page, shape, first_layer, num_layers, view))
        batch = _Batch(pieces)
        if not pieces:
            batch.future.set_result([])
            return batch.future
        self._core.leases.hold(batch.page_ids)
        for _ in range(min(batch.num_left, THREADS)):
            self._threads.submit(self._run, batch)
        return batch.future

    def _run(self, batch: _Batch) -> None:
        """On a reading thread: do jobs until none is left."""
        while (job := batch.next_job()) is not None:
            try:
                if batch.problem is None:
                    self._read(batch, job)
            except BaseException as error:
                batch.problem = error
            with self._ending:
                batch.num_left -= 1
                is_last = not batch.num_left
            if is_last:
                self._end(batch)

    def _read(self, batch: _Batch, job: list[Piece]) -> None:
        """Read a run of pieces, check them, and hand them out."""
        files, is_read = self._core.files, True
        plan = plan_read(job, self._buffers, files.memory_unit)
        try:
            files.read_scattered(job[0].page.place.segment, plan.parts, job[0].start)
        except OSError:
            is_read = False  # each page is tried alone, and the reason told then
        else:
            self._core.add(bytes_read=sum(map(len, plan.parts)))
            plan.finish()
        for piece in job:
            if is_read and piece.damage() is None:
                batch.results[piece.number] = None
            else:
                # One bad sector must cost one page, not all those that were to be read along with it.
                batch.results[piece.number] = self._alone(piece)

    def _end(self, batch: _Batch) -> None:
        self._core.leases.release(batch.page_ids)
        if batch.problem is not None:
            batch.future.set_exception(batch.problem)
        else:
            batch.future.set_result(batch.results)

    def _alone(self, piece: Piece) -> str | None:
        """Read a piece that failed once more, where its page lies now; a page that fails again is given up."""
        try:
            page = self._core.index.by_id(piece.page.page_id)
        except sqlite3.Error as error:
            return f"The page could not be looked up: {error}."
        if page is None:
            return _GONE
        piece.locate(page)
        buffer = AlignedBuffer((piece.end - piece.start) * UNIT)
        try:
            self._core.files.read(page.place.segment, buffer.view, piece.start)
            piece.out[:] = buffer.view[piece.offset : piece.offset + len(piece.out)]
            problem = piece.damage()
        except OSError as error:
            problem = why_not("The page could not be read", error)
            if is_passing(error):
                return problem
        if problem is not None:
            self._core.mark_bad(page)
            self._core.add(read_failures=1)
            self._core.note(problem)
        return problem
