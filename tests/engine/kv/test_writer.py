"""The writer's thread, on a store whose writes end when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.engine.kv.writer import WriteJob, Writer


class Slow:
    """Writes are begun at once, and end one by one."""

    def __init__(self) -> None:
        self.batches: list[tuple[Sequence[Any], Future[list[str | None]]]] = []
        self.begun = threading.Semaphore(0)
        self.kept: set[bytes] = set()

    def submit_write(self, pages: Sequence[Any]) -> Future[list[str | None]]:
        future: Future[list[str | None]] = Future()
        self.batches.append((pages, future))
        self.begun.release()
        return future

    def find(self, identities: Sequence[bytes]) -> list[Any]:
        return [SimpleNamespace(identity=each) if each in self.kept else None for each in identities]

    def end(self, number: int, problem: str | None = None) -> None:
        pages, future = self.batches[number]
        if problem is None:
            self.kept.update(page.identity for page in pages)
        future.set_result([problem] * len(pages))


def jobs(first: int, count: int) -> list[WriteJob]:
    return [
        WriteJob(page, page.to_bytes(32, "big"), bytes(32), (page,), "ann", "prefill", memoryview(b"x"))
        for page in range(first, first + count)
    ]


@pytest.fixture
def store() -> Slow:
    return Slow()


@pytest.fixture
def writer(store: Slow) -> Writer:
    return Writer(store)  # type: ignore[arg-type]


def test_batches_are_begun_before_earlier_ones_end_but_not_without_bound(store: Slow, writer: Writer) -> None:
    writer.submit(jobs(0, 64 * 5))
    for _ in range(3):
        assert store.begun.acquire(timeout=10)
    assert not store.begun.acquire(timeout=0.05)

    store.end(0)

    assert store.begun.acquire(timeout=10)
    assert {result.page for result in writer.collect(wait=True)} == set(range(64))
    store.end(1)
    assert store.begun.acquire(timeout=10)
    for number in (2, 3, 4):
        store.end(number)
    writer.close()
    assert {result.page for result in writer.collect()} == set(range(64, 320))


def test_what_fails_is_told_for_its_batch_alone(store: Slow, writer: Writer) -> None:
    writer.submit(jobs(0, 128))
    for _ in range(2):
        assert store.begun.acquire(timeout=10)
    store.end(0, "The disk is full.")
    store.batches[1][1].set_exception(OSError("gone"))
    writer.close()

    results = {result.page: (result.stored, result.problem) for result in writer.collect()}

    assert results[0] == (None, "The disk is full.")
    assert results[127] == (None, "OSError: gone")
    assert len(results) == 128


def test_waiting_ends_with_the_last_batch_under_way(store: Slow, writer: Writer) -> None:
    writer.submit(jobs(0, 70))
    seen: list[int] = []

    def collect() -> None:
        while results := writer.collect(wait=True):
            seen.extend(result.page for result in results)

    collecting = threading.Thread(target=collect)
    collecting.start()
    for number in range(2):
        assert store.begun.acquire(timeout=10)
        store.end(number)
    collecting.join(10)

    assert not collecting.is_alive()
    assert sorted(seen) == list(range(70))
    writer.close()
