"""Reading pages: neighbours in one long read, on a few threads, and every record checked before anybody sees it.

Bytes of whole pages go from the disk straight to where they are wanted, and are checked there.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import is_passing, why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.pieces import Piece, ReadPlan, joined, plan_read
from octavo.storage.pagestore.records import Shape

THREADS = 8  # enough that some are in the disk while others check
_BUFFERS = THREADS + 4
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


@dataclass(slots=True)
class _Loaded:
    """A job that was read as planned, with the help of `buffer`; None for the plan if it could not be."""

    batch: _Batch
    job: list[Piece]
    plan: ReadPlan | None
    buffer: AlignedBuffer


class PageReader:
    """Reads for any thread.

    Some threads read. One of them at a time, whichever finds that nobody does, checks and copies what all have read:
    several that want the interpreter and the memory by turns are slower than one alone.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(THREADS, "octavo-store-read")
        self._free: queue.SimpleQueue[AlignedBuffer] = queue.SimpleQueue()
        for _ in range(_BUFFERS):
            self._free.put(AlignedBuffer(UNIT))
        self._loaded: deque[_Loaded] = deque()
        self._delivering = threading.Lock()

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
            self._loaded.append(self._load(batch, job, self._free.get()))
            # Whoever holds the lock may have looked for the last time just before this was appended: look again.
            while self._loaded and self._delivering.acquire(blocking=False):
                try:
                    self._deliver_loaded()
                finally:
                    self._delivering.release()

    def _load(self, batch: _Batch, job: list[Piece], buffer: AlignedBuffer) -> _Loaded:
        files, place, plan = self._core.files, job[0].page.place, None
        try:
            plan, buffer = plan_read(job, buffer, files.memory_unit)
            files.read_scattered(place.segment, plan.parts, job[0].start)
            self._core.add(bytes_read=sum(map(len, plan.parts)))
        except OSError:
            plan = None  # each page is tried alone, and the reason told then
        except BaseException as error:
            batch.problem = error
        return _Loaded(batch, job, plan, buffer)

    def _deliver_loaded(self) -> None:
        """Hand out what was read, by whichever thread."""
        while self._loaded:
            loaded = self._loaded.popleft()
            batch = loaded.batch
            try:
                if batch.problem is None:
                    self._hand_out(loaded)
            except BaseException as error:
                batch.problem = error
            self._free.put(loaded.buffer)
            batch.num_left -= 1
            if not batch.num_left:
                self._core.leases.release(batch.page_ids)
                if batch.problem is not None:
                    batch.future.set_exception(batch.problem)
                else:
                    batch.future.set_result(batch.results)

    def _hand_out(self, loaded: _Loaded) -> None:
        if loaded.plan is not None:
            loaded.plan.finish()
        for piece in loaded.job:
            if loaded.plan is not None and piece.damage() is None:
                loaded.batch.results[piece.number] = None
            else:
                # One bad sector must cost one page, not all those that were to be read along with it.
                loaded.batch.results[piece.number] = self._alone(piece)

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
