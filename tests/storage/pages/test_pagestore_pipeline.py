"""Several batches under way at a time, and bytes that go to and from the disk without a copy."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from octavo.storage.pagestore.aligned_io import MEMORY_UNIT, UNIT, AlignedBuffer, address


class Gate:
    """Syncs that wait to be let through, each by its number."""

    def __init__(self, system: Any) -> None:
        self.reached = threading.Semaphore(0)
        self._let_through = threading.Semaphore(0)
        system.replace("sync", self._sync)

    def _sync(self, descriptor: int) -> None:
        self.reached.release()
        assert self._let_through.acquire(timeout=10)
        os.fdatasync(descriptor)

    def wait(self) -> None:
        assert self.reached.acquire(timeout=10)

    def open(self, count: int = 1) -> None:
        self._let_through.release(count)


@pytest.fixture
def gate(system: Any) -> Gate:
    return Gate(system)


def aligned(page: Any, offset: int = MEMORY_UNIT) -> Any:
    """The page with its data where a disk can take it from, `offset` bytes after the start of a memory page."""
    memory = AlignedBuffer(len(page.data) + offset).view[offset:][: len(page.data)]
    memory[:] = page.data
    return replace(page, data=memory)


def test_rows_are_committed_after_their_own_sync_and_in_order(kit: Any, system: Any, gate: Gate) -> None:
    pages = kit.chain(0, 9)
    space = kit.space(system=system)
    batches = [space.submit_write(pages[begin : begin + 3]) for begin in (0, 3, 6)]

    for done in range(3):
        gate.wait()
        found = space.find([page.identity for page in pages])
        assert [page is not None for page in found] == [True] * 3 * done + [False] * (9 - 3 * done)
        assert [batch.done() for batch in batches] == [True] * done + [False] * (3 - done)
        gate.open()
        assert batches[done].result(timeout=10) == [None] * 3

    assert [page.depth for page in space.find([page.identity for page in pages])] == list(range(9))
    assert kit.kept(space, pages) == [True] * 9


def test_one_batch_more_waits_for_the_first(kit: Any, system: Any, gate: Gate) -> None:
    pages = kit.chain(0, 4)
    space = kit.space(system=system)
    for page in pages[:3]:
        space.submit_write([page])
    fourth = threading.Thread(target=lambda: space.submit_write([pages[3]]))
    fourth.start()
    gate.wait()
    assert fourth.is_alive()

    gate.open(4)
    fourth.join(10)

    kit.opened[0].flush()
    assert kit.kept(space, pages) == [True] * 4


def test_a_page_that_is_under_way_gains_the_owner_of_its_twin(kit: Any, system: Any) -> None:
    page = kit.page(1)
    space = kit.space(system=system)
    first, second = space.submit_write([page]), space.submit_write([replace(page, owner="bob")])
    assert (first.result(), second.result()) == ([None], [None])
    assert kit.opened[0].stats().pages_written == 1

    kit.opened[0].forget("ann")

    assert kit.kept(space, [page]) == [True]


def test_a_batch_that_fails_takes_no_other_with_it(kit: Any, system: Any, gate: Gate) -> None:
    pages = kit.chain(0, 8)
    space = kit.space(system=system)
    first = space.submit_write(pages[:4])
    gate.wait()  # so that it is written, and the next one is not
    system.fail("pwritev", errno.EIO)
    second = space.submit_write(pages[4:6])
    gate.open()
    assert first.result() == [None] * 4
    gate.wait()
    system.fail("sync", errno.EIO)
    third = space.submit_write(pages[6:])
    gate.open()

    assert second.result() == third.result() == ["The page could not be written: Input/output error."] * 2
    system.heal()
    assert kit.kept(space, pages) == [True] * 4 + [False] * 4
    assert space.write(pages[4:]) == [None] * 4
    assert kit.opened[0].verify().is_clean
    kit.lose_index_after_closing()
    assert kit.kept(kit.space(), pages) == [True] * 8


def test_places_of_pages_that_failed_are_used_again(kit: Any, system: Any) -> None:
    space = kit.space(4 << 20, system=system)
    space.write(kit.chain(0, 8))
    system.fail("sync", errno.EIO)
    for begin in range(100, 1000, 30):
        assert None not in space.write(kit.chain(begin, 30))
    system.heal()

    kit.opened[0].flush()

    core = kit.opened[0]._session.core
    used = sum(core.extents.used_units(number) for number in core.extents.segments)
    assert used * UNIT == 8 * kit.page_bytes
    assert kit.kept(space, kit.chain(0, 8)) == [True] * 8


def test_forgetting_waits_for_what_is_under_way(kit: Any, system: Any, gate: Gate) -> None:
    pages = kit.chain(0, 4)
    space = kit.space(system=system)
    writing = space.submit_write(pages)
    gate.wait()
    forgetting = threading.Thread(target=kit.opened[0].forget, args=["ann"])
    forgetting.start()
    gate.open(10)
    forgetting.join(10)

    assert writing.result(timeout=10) == [None] * 4
    assert kit.kept(space, pages) == [False] * 4
    data = b"".join(path.read_bytes() for path in kit.segments())
    assert not any(page.data[:64] in data for page in pages)


def test_closing_writes_what_is_under_way(kit: Any) -> None:
    pages = kit.chain(0, 12)
    space = kit.space()
    batches = [space.submit_write(pages[begin : begin + 4]) for begin in (0, 4, 8)]
    kit.close()

    assert [batch.result(timeout=10) for batch in batches] == [[None] * 4] * 3
    assert kit.kept(kit.space(), pages) == [True] * 12
    assert space.submit_write(pages).result() == [f"The page store {kit.folder} is closed."] * 12


def test_room_is_made_beside_batches_under_way(kit: Any) -> None:
    space = kit.space(4 << 20)
    batches = [space.submit_write(kit.chain(begin, 25)) for begin in range(0, 3000, 25)]

    assert all(batch.result() == [None] * 25 for batch in batches)
    assert kit.bytes_on_disk() <= 4 << 20
    assert kit.kept(space, kit.chain(2975, 25)) == [True] * 25
    assert kit.opened[0].verify().is_clean


@pytest.mark.parametrize("record", [4096, 4000, 5461])
def test_aligned_memory_is_written_and_read_where_it_lies(kit: Any, system: Any, record: int) -> None:
    kit.record = record
    pages = [aligned(page) if number % 3 else page for number, page in enumerate(kit.chain(0, 9))]
    moved: list[tuple[str, int]] = []

    def noted(call: str) -> Any:
        def move(descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
            moved.extend((call, address(part)) for part in parts)
            return getattr(os, call)(descriptor, parts, offset)

        return move

    for call in ("pwritev", "preadv"):
        system.replace(call, noted(call))
    space = kit.space(system=system)
    if not kit.opened[0].stats().direct:
        pytest.skip("memory aligned otherwise is fit for the page cache, too")
    moved.clear()

    assert space.write(pages) == [None] * 9
    outs = [aligned(page).data for page in pages]
    for out in outs:
        out[:] = bytes(len(out))
    found = space.find([page.identity for page in pages])
    assert space.read([(page, 0, kit.layers, out) for page, out in zip(found, outs, strict=True)]) == [None] * 9

    assert [bytes(out) for out in outs] == [bytes(page.data) for page in pages]
    straight = {("pwritev", address(page.data)) for number, page in enumerate(pages) if number % 3}
    assert straight | {("preadv", address(out)) for out in outs} <= set(moved)
    assert kit.opened[0].verify().is_clean


def test_memory_that_the_disk_cannot_reach_is_copied(kit: Any, system: Any) -> None:
    """Disks may ask for memory aligned to whole units: found out with a probe when the store is opened."""

    def demanding(call: Any) -> Any:
        def move(descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
            if any(address(part) % UNIT for part in parts):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return call(descriptor, parts, offset)

        return move

    system.replace("pwritev", demanding(os.pwritev))
    system.replace("preadv", demanding(os.preadv))
    pages = [aligned(page) for page in kit.chain(0, 6)]
    for options in ({}, {"write": False}):
        space = kit.space(system=system, **options)
        assert space.write(pages)[0] in (None, f"The page store {kit.folder} is open for reading only.")
        outs = [aligned(page).data for page in pages]
        found = space.find([page.identity for page in pages])
        assert space.read([(page, 0, kit.layers, out) for page, out in zip(found, outs, strict=True)]) == [None] * 6
        assert [bytes(out) for out in outs] == [bytes(page.data) for page in pages]


def test_a_flipped_bit_in_bytes_read_straight_is_a_miss(kit: Any, system: Any) -> None:
    pages = [aligned(page) for page in kit.chain(0, 5)]
    space = kit.space(system=system)
    space.write(pages)
    bad = address(pages[3].data) + 77

    def flip(descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        got = os.preadv(descriptor, parts, offset)
        for part in parts:
            if 0 <= bad - address(part) < len(part):
                part[bad - address(part)] ^= 4
        return got

    system.replace("preadv", flip)
    found = space.find([page.identity for page in pages])
    reads = [(page, 0, kit.layers, known.data) for page, known in zip(found, pages, strict=True)]

    # The page is read alone once more, into memory of its own, where nothing flips.
    assert space.read(reads) == [None] * 5
    assert kit.kept(space, kit.chain(0, 5)) == [True] * 5
