"""Writes complete pages down to the page store, on a thread of its own, so that a token never waits for a disk.

The engine's thread hands over jobs and collects results; all bookkeeping stays with it. What bounds the queue are the
host rows that the jobs' bytes lie in.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from octavo.engine.kv.pages import Origin, PageId
from octavo.engine.kv.store import PageSpace, StoredPage

_BATCH = 64  # pages that share one sync of the disk
_UNDER_WAY = 3  # batches: the disk has one while another is committed, and one to go on with


@dataclass(frozen=True, slots=True, eq=False)
class WriteJob:
    """A NewPage, and where its bytes lie until the job is done."""

    page: PageId
    identity: bytes
    parent: bytes
    token_ids: tuple[int, ...]
    owner: str
    origin: Origin
    data: memoryview


@dataclass(frozen=True, slots=True)
class WriteResult:
    """`stored` is the page as the store keeps it, `problem` says why it keeps none."""

    page: PageId
    owner: str
    stored: StoredPage | None
    problem: str | None


class Writer:
    """A queue, a thread, and a list of results."""

    def __init__(self, space: PageSpace) -> None:
        self._space = space
        self._changed = threading.Condition()
        self._waiting: deque[WriteJob] = deque()
        self._results: list[WriteResult] = []
        self._num_writing = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="octavo-pages-writer", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[WriteJob]) -> None:
        with self._changed:
            self._waiting.extend(jobs)
            self._changed.notify_all()

    def collect(self, *, wait: bool = False) -> list[WriteResult]:
        """Results since the last call; with `wait`, at least one as long as any is to come."""
        with self._changed:
            while wait and not self._results and (self._waiting or self._num_writing):
                self._changed.wait()
            results, self._results = self._results, []
            return results

    def close(self) -> None:
        """Write what waits, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        under_way: deque[tuple[list[WriteJob], Future[list[str | None]]]] = deque()
        while True:
            with self._changed:
                while not self._waiting and not under_way and not self._closing:
                    self._changed.wait()
                if not self._waiting and not under_way:
                    return
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                self._num_writing += len(batch)
            if batch:
                under_way.append((batch, self._begin(batch)))
            if not batch or len(under_way) == _UNDER_WAY:
                results = self._finish(*under_way.popleft())
                with self._changed:
                    self._results += results
                    self._num_writing -= len(results)
                    self._changed.notify_all()

    # A thread that dies would leave every row unwritten for ever, and the engine waiting: whatever goes wrong is told.

    def _begin(self, batch: list[WriteJob]) -> Future[list[str | None]]:
        try:
            return self._space.submit_write(batch)
        except Exception as error:
            refused: Future[list[str | None]] = Future()
            refused.set_exception(error)
            return refused

    def _finish(self, batch: list[WriteJob], writing: Future[list[str | None]]) -> list[WriteResult]:
        found: Sequence[StoredPage | None]
        try:
            problems, found = writing.result(), self._space.find([job.identity for job in batch])
        except Exception as error:
            problems, found = [f"{type(error).__name__}: {error}"] * len(batch), [None] * len(batch)
        return [
            WriteResult(job.page, job.owner, stored, problem or (None if stored else "The page store is full."))
            for job, stored, problem in zip(batch, found, problems, strict=True)
        ]
