"""Reading pages: neighbours in one long read, on a few threads, and every record checked before anybody sees it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer, ThreadBuffers
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import is_passing, why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.records import Shape, record_checksum, record_seed

THREADS = 4
RUN_BYTES = 1 << 20  # longest read that joins several pages
_GAP_UNITS = 4  # between two pieces, read along rather than skipped
_GONE = "The page is no longer in the store."

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

    @property
    def start(self) -> int:
        """First unit in the segment."""
        return self.page.place.start + (self.shape.header_bytes + self.first_layer * self.shape.stride) // UNIT

    @property
    def end(self) -> int:
        return self.start + self.num_layers * self.shape.stride // UNIT


class _Batch:
    """The pieces of one call; the future is done when the last of its jobs is."""

    def __init__(self, num_results: int, num_jobs: int) -> None:
        self.future: Future[list[str | None]] = Future()
        self.results: list[str | None] = [None] * num_results
        self._left = num_jobs
        self._lock = threading.Lock()
        self.future.set_running_or_notify_cancel()

    def job_done(self, error: BaseException | None) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if error is not None and not self.future.done():
            self.future.set_exception(error)
        elif last and not self.future.done():
            self.future.set_result(self.results)


class PageReader:
    """Reads for any thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(THREADS, "octavo-store-read")
        self._buffers = ThreadBuffers()

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
        jobs = list(_joined(pieces))
        batch = _Batch(len(pieces), len(jobs))
        if not jobs:
            batch.future.set_result([])
        for job in jobs:
            self._core.leases.hold(piece.page.page_id for piece in job)
            self._threads.submit(self._run, job, batch)
        return batch.future

    def _run(self, job: list[_Piece], batch: _Batch) -> None:
        try:
            self._read_job(job, batch.results)
        except BaseException as error:
            batch.job_done(error)
            raise
        else:
            batch.job_done(None)
        finally:
            self._core.leases.release(piece.page.page_id for piece in job)

    def _read_job(self, job: list[_Piece], results: list[str | None]) -> None:
        try:
            self._read(job, results)
        except OSError:
            # One bad sector must cost one page, not all those that were to be read along with it.
            for piece in job:
                results[piece.number] = self._alone(piece)
            return
        for piece in job:
            if results[piece.number] is not None:
                results[piece.number] = self._alone(piece)

    def _read(self, job: list[_Piece], results: list[str | None]) -> None:
        """Read a run of pieces and hand out what passes its check. Raises OSError."""
        begin = job[0].start
        num_bytes = (job[-1].end - begin) * UNIT
        buffer = self._buffers.at_least(num_bytes)
        self._core.files.read(job[0].page.place.segment, buffer.view[:num_bytes], begin)
        self._core.add(bytes_read=num_bytes)
        for piece in job:
            results[piece.number] = _deliver(piece, buffer, (piece.start - begin) * UNIT)

    def _alone(self, piece: _Piece) -> str | None:
        """Read a piece that failed once more, where its page lies now; a page that fails again is given up."""
        results: list[str | None] = [None] * (piece.number + 1)
        try:
            page = self._core.index.by_id(piece.page.page_id)
        except sqlite3.Error as error:
            return f"The page could not be looked up: {error}."
        if page is None:
            return _GONE
        piece.page = page
        try:
            self._read([piece], results)
            problem = results[piece.number]
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
            gap = piece.start - run[-1].end
            same = piece.page.place.segment == run[0].page.place.segment
            short = (piece.end - run[0].start) * UNIT <= RUN_BYTES
            if not (same and short and 0 <= gap <= _GAP_UNITS):
                yield run
                run = []
        run.append(piece)
    if run:
        yield run


def _deliver(piece: _Piece, buffer: AlignedBuffer, at: int) -> str | None:
    """Check the records of a piece at byte `at` of the buffer, and copy them out if all are what was written."""
    shape, page = piece.shape, piece.page
    seed, checksums = record_seed(page.identity, page.page_id), page.checksums
    for layer in range(piece.first_layer, piece.first_layer + piece.num_layers):
        begin = at + (layer - piece.first_layer) * shape.stride
        if record_checksum(buffer.view[begin : begin + shape.record_bytes], seed, layer) != checksums[layer]:
            return f"Layer {layer} of a page is damaged on the disk; the page is computed again."
    records = buffer.array[at : at + piece.num_layers * shape.stride].reshape(piece.num_layers, shape.stride)
    out = np.frombuffer(piece.out, dtype=np.uint8).reshape(piece.num_layers, shape.record_bytes)
    out[:] = records[:, : shape.record_bytes]
    return None
