"""Reading pages: neighbours in one long read, on a few threads, and every record checked before anybody sees it."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer, units
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import is_passing, why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.records import Shape, body_checksum, record_checksums, record_seed

THREADS = 8  # enough that some are in the disk while others check and copy
_BUFFERS = THREADS + 4
RUN_BYTES = 1 << 20  # longest read that joins several pages
_GAP_UNITS = 4  # between two pieces, read along rather than skipped
_GONE = "The page is no longer in the store."
_NOT_READ = "The page was not read."

Read = tuple[StoredPage, int, int, memoryview]


@dataclass(slots=True)
class _Piece:
    """Some neighbouring layers of one page, and where their bytes go: `out`, num_layers * record_bytes long."""

    number: int
    page: StoredPage
    shape: Shape
    first_layer: int
    num_layers: int
    out: memoryview
    start: int = 0  # first unit in the segment
    end: int = 0
    offset: int = 0  # in the first unit

    def __post_init__(self) -> None:
        self.locate(self.page)

    def locate(self, page: StoredPage) -> None:
        """The piece is where `page` says it is."""
        self.page = page
        first = page.place.start * UNIT + self.shape.header_bytes + self.first_layer * self.shape.record_bytes
        self.start, self.offset = divmod(first, UNIT)
        self.end = self.start + units(self.offset + len(self.out))


class _Batch:
    """The reads of one call. Its future is done when the last job is, not before: buffers are written to until then."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self.future: Future[list[str | None]] = Future()
        self.future.set_running_or_notify_cancel()  # it cannot be cancelled
        self.results: list[str | None] = [_NOT_READ] * len(pieces)
        self.page_ids = [piece.page.page_id for piece in pieces]
        self.problem: BaseException | None = None
        self.jobs = deque(_joined(pieces))
        self.num_left = len(self.jobs)

    def next_job(self) -> list[_Piece] | None:
        """A run of pieces that nobody has taken yet."""
        try:
            return self.jobs.popleft()
        except IndexError:
            return None


@dataclass(slots=True)
class _Loaded:
    """A job whose bytes are in `buffer`, from unit `begin` on; or could not be had."""

    batch: _Batch
    job: list[_Piece]
    buffer: AlignedBuffer
    begin: int
    failed: bool


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
            pieces.append(_Piece(number, page, shape, first_layer, num_layers, view))
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

    def _load(self, batch: _Batch, job: list[_Piece], buffer: AlignedBuffer) -> _Loaded:
        begin = job[0].start
        num_bytes = (_end_of(job) - begin) * UNIT
        failed = True
        try:
            if len(buffer) < num_bytes:
                buffer = AlignedBuffer(num_bytes)
            self._core.files.read(job[0].page.place.segment, buffer.view[:num_bytes], begin)
            self._core.add(bytes_read=num_bytes)
            failed = False
        except OSError:
            pass  # each page is tried alone, and the reason told then
        except BaseException as error:
            batch.problem = error
        return _Loaded(batch, job, buffer, begin, failed)

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
        for piece in loaded.job:
            problem = None
            if not loaded.failed:
                problem = _deliver(piece, loaded.buffer, (piece.start - loaded.begin) * UNIT)
            if loaded.failed or problem is not None:
                # One bad sector must cost one page, not all those that were to be read along with it.
                problem = self._alone(piece)
            loaded.batch.results[piece.number] = problem

    def _alone(self, piece: _Piece) -> str | None:
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
            problem = _deliver(piece, buffer, 0)
        except OSError as error:
            problem = why_not("The page could not be read", error)
            if is_passing(error):
                return problem
        if problem is not None:
            self._core.mark_bad(page)
            self._core.add(read_failures=1)
            self._core.note(problem)
        return problem


def _joined(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """Runs of pieces that lie beside each other, each short enough for one read."""
    run: list[_Piece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.page.place.segment, piece.start)):
        if run:
            # Neighbouring layers share a unit.
            near = piece.start - _end_of(run) <= _GAP_UNITS
            same = piece.page.place.segment == run[0].page.place.segment
            short = (piece.end - run[0].start) * UNIT <= RUN_BYTES
            if not (same and short and near):
                yield run
                run = []
        run.append(piece)
    if run:
        yield run


def _end_of(job: Sequence[_Piece]) -> int:
    """The unit after the last that a job reads."""
    return max(piece.end for piece in job)


def _deliver(piece: _Piece, buffer: AlignedBuffer, at: int) -> str | None:
    """Check the records of a piece, whose first unit is at byte `at`, and copy them out if all are what was written."""
    begin = at + piece.offset
    end = begin + len(piece.out)
    problem = _damage(piece, buffer.view[begin:end])
    if problem is None:
        np.frombuffer(piece.out, dtype=np.uint8)[:] = buffer.array[begin:end]
    return problem


def _damage(piece: _Piece, data: memoryview) -> str | None:
    """The first layer that is not what was written."""
    page, shape = piece.page, piece.shape
    seed = record_seed(page.identity, page.page_id)
    if piece.num_layers == shape.num_layers and body_checksum(data, seed) == page.body_checksum:
        return None
    layers, written = range(piece.first_layer, piece.first_layer + piece.num_layers), page.checksums
    found = record_checksums(data, seed, layers, shape)
    for layer, checksum in zip(layers, found, strict=True):
        if checksum != written[layer]:
            return f"Layer {layer} of a page is damaged on the disk; the page is computed again."
    return None
