"""A failing disk: every page is whole or lost, the user is told once, and nothing is wrong silently."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from typing import Any

import pytest

from octavo.storage.errors import StorageError
from octavo.storage.pages import AlignmentError, PageStoreError, open_store
from octavo.storage.pagestore.aligned_io import AlignedBuffer, System, read_units, write_units
from octavo.storage.pagestore.writing import RUN_BYTES


def test_a_full_disk_is_told_and_is_no_dead_end(kit: Any, system: Any) -> None:
    """DingoCache#83: once the disk had been full, nothing was written any more."""
    pages = kit.chain(0, 4)
    space = kit.space(system=system)
    system.fail("pwritev", errno.ENOSPC)

    assert space.write(pages) == ["The page could not be written: the disk is full."] * 4
    assert kit.kept(space, pages) == [False] * 4
    assert kit.opened[0].stats().problems == ("The page could not be written: the disk is full.",)

    system.heal()
    assert space.write(pages) == [None] * 4
    assert kit.kept(space, pages) == [True] * 4
    assert kit.opened[0].verify().is_clean


def test_a_disk_without_room_for_a_segment_is_told_and_no_dead_end(kit: Any, system: Any) -> None:
    system.fail("allocate", errno.ENOSPC)
    space = kit.space(system=system)

    assert space.write([kit.page(1)]) == ["No room could be made in the page store: the disk is full."]
    assert not kit.segments()

    system.heal()
    assert space.write([kit.page(1)]) == [None]


def test_on_a_full_disk_new_pages_take_the_place_of_the_least_valuable(kit: Any, system: Any) -> None:
    pages = kit.chain(0, 64)
    space = kit.space(8 << 20, system=system)
    space.write(pages)
    system.fail("allocate", errno.ENOSPC)

    more = kit.chain(1000, 16)
    assert space.write(more) == [None] * 16

    assert kit.kept(space, more) == [True] * 16
    assert kit.kept(space, pages) == [True] * 48 + [False] * 16


def test_an_index_that_finds_the_disk_full_keeps_nothing_and_goes_on_later(kit: Any) -> None:
    pages = kit.chain(0, 40)
    space = kit.space()
    writer = kit.opened[0]._session.core.index.writer
    (num_pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {num_pages}")

    results = space.write(pages)

    assert all("the index did not take it (database or disk is full)" in str(result) for result in results)
    assert kit.kept(space, pages) == [False] * 40
    writer.execute("PRAGMA max_page_count = 100000")
    assert space.write(pages) == [None] * 40
    assert kit.opened[0].verify().is_clean


@pytest.mark.parametrize("call", ["pwritev", "sync"])
def test_pages_that_do_not_reach_the_disk_are_not_kept(kit: Any, system: Any, call: str) -> None:
    pages = kit.chain(0, 4)
    space = kit.space(system=system)
    space.write(pages[:2])
    system.fail(call, errno.EIO)

    assert space.write(pages[2:]) == ["The page could not be written: Input/output error."] * 2
    assert kit.kept(space, pages) == [True, True, False, False]

    system.heal()
    assert space.write(pages[2:]) == [None, None]
    kit.lose_index_after_closing()
    assert kit.kept(kit.space(), pages) == [True] * 4


def test_only_the_pages_of_the_run_that_failed_are_lost(kit: Any, system: Any) -> None:
    kit.layers, kit.record = 2, RUN_BYTES // 3
    pages = kit.chain(0, 4)
    space = kit.space(system=system)

    def fail_once(descriptor: int, parts: list[memoryview], offset: int) -> int:
        if offset > 0 and not failed:
            failed.append(offset)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.pwritev(descriptor, parts, offset)

    failed: list[int] = []
    system.replace("pwritev", fail_once)

    results = space.write(pages)

    assert sorted(result is None for result in results) == [False, True, True, True]
    assert kit.kept(space, pages) == [result is None for result in results]


def test_a_page_that_cannot_be_read_is_told_and_computed_again(kit: Any, system: Any) -> None:
    pages = kit.chain(0, 3)
    space = kit.space(system=system)
    space.write(pages)
    found = space.find([page.identity for page in pages])
    system.fail("preadv", errno.EIO)

    assert kit.read(space, found) == ["The page could not be read: Input/output error."] * 3

    system.heal()
    assert kit.kept(space, pages) == [False] * 3
    assert kit.opened[0].stats().problems == ("The page could not be read: Input/output error.",)
    assert space.write(pages) == [None] * 3
    assert kit.kept(space, pages) == [True] * 3
    assert kit.opened[0].verify().is_clean


def test_one_bad_sector_costs_one_page(kit: Any, system: Any) -> None:
    pages = kit.chain(0, 10)
    space = kit.space(system=system)
    space.write(pages)
    bad = 5 * kit.page_bytes + 8192

    def fail_there(descriptor: int, parts: list[memoryview], offset: int) -> int:
        if offset <= bad < offset + sum(map(len, parts)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.preadv(descriptor, parts, offset)

    system.replace("preadv", fail_there)

    assert kit.kept(space, pages) == [number != 5 for number in range(10)]


def test_a_lack_of_descriptors_costs_no_page(kit: Any, system: Any) -> None:
    pages = kit.chain(0, 3)
    space = kit.space(system=system)
    space.write(pages)
    found = space.find([page.identity for page in pages])
    system.fail("preadv", errno.EMFILE)

    assert kit.read(space, found) == ["The page could not be read: Too many open files."] * 3

    system.heal()
    assert kit.kept(space, pages) == [True] * 3


def test_reads_and_writes_that_come_up_short_are_continued(kit: Any, system: Any) -> None:
    pages = kit.chain(0, 8)
    system.replace("pwritev", lambda descriptor, parts, offset: os.pwritev(descriptor, [parts[0][:8192]], offset))
    system.replace("preadv", lambda descriptor, parts, offset: os.preadv(descriptor, [parts[0][:4096]], offset))
    space = kit.space(system=system)

    assert space.write(pages) == [None] * 8
    assert kit.kept(space, pages) == [True] * 8


def test_a_write_that_stops_within_a_sector_is_no_page(kit: Any, system: Any) -> None:
    space = kit.space(system=system)
    system.replace("pwritev", lambda *_: 100)

    assert space.write([kit.page(1)]) == ["The page could not be written: a write stopped within a sector."]


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_flipped_bit_is_a_miss(kit: Any, layer: int) -> None:
    pages = kit.chain(0, 3)
    kit.space().write(pages)
    kit.close()
    with kit.segments()[0].open("r+b") as file:
        file.seek(kit.page_bytes + 4096 + 4000 * layer + 333)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))

    space = kit.space()
    report = kit.opened[0].verify()
    assert [problem.split(": ")[1] for problem in report.problems] == ["a layer is damaged."]
    assert kit.kept(space, pages) == [True, False, True]

    problem = f"Layer {layer} of a page is damaged on the disk; the page is computed again."
    assert kit.opened[0].stats().problems == (problem,)
    assert space.find([pages[1].identity]) == [None]
    space = kit.space()
    assert space.write([pages[1]]) == [None]
    assert kit.kept(space, pages) == [True] * 3
    assert kit.opened[0].verify().is_clean


def test_what_an_earlier_page_left_never_passes_for_another(kit: Any) -> None:
    """vllm#45704: a page was used again before its copy had ended."""
    first, second = kit.page(1), kit.page(2)
    space = kit.space()
    space.write([first])
    (stale,) = space.find([first.identity])
    kit.evict(first)
    space.write([second])
    (fresh,) = space.find([second.identity])
    assert stale.place == fresh.place

    assert kit.read(space, [stale, fresh]) == ["The page is no longer in the store.", second.data]
    assert kit.opened[0].stats().read_failures == 0


def test_a_missing_segment_is_told_at_the_start_and_its_pages_are_misses(kit: Any) -> None:
    pages = kit.chain(0, 3)
    kit.space().write(pages)
    kit.close()
    kit.segments()[0].unlink()

    space = kit.space()

    assert kit.opened[0].stats().problems == ("Segment 1 of the page store is missing; its pages are computed again.",)
    assert kit.kept(space, pages) == [False] * 3
    assert space.write(pages) == [None] * 3
    assert kit.opened[0].verify().is_clean


def test_a_segment_that_was_cut_off_loses_what_was_behind_the_cut(kit: Any) -> None:
    pages = kit.chain(0, 8)
    kit.space().write(pages)
    kit.close()
    os.truncate(kit.segments()[0], 5 * kit.page_bytes)

    space = kit.space()

    assert kit.kept(space, pages) == [True] * 5 + [False] * 3
    assert space.write(pages) == [None] * 8
    assert kit.kept(space, pages) == [True] * 8


def test_a_missing_segment_is_a_miss_for_a_reader(kit: Any) -> None:
    pages = kit.chain(0, 3)
    kit.space().write(pages)
    kit.close()
    kit.segments()[0].unlink()

    space = kit.space(write=False)

    assert kit.read(space, space.find([pages[0].identity])) == [
        "The page could not be read: No such file or directory."
    ]
    assert space.find([pages[0].identity]) == [None]
    assert kit.opened[0].verify().problems[0] == "Segment 1 is missing."


def test_a_folder_that_cannot_be_written_can_be_read(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = kit.chain(0, 3)
    kit.space().write(pages)
    kit.close()

    def refuse(*_: Any) -> Any:
        raise StorageError("The folder cannot be written (Read-only file system).")

    monkeypatch.setattr("octavo.storage.pagestore.opening.take_lock", refuse)
    space = kit.space()

    assert not kit.opened[0].writable
    assert kit.opened[0].stats().problems == ("The folder cannot be written (Read-only file system).",)
    assert kit.kept(space, pages) == [True] * 3
    assert "reading only" in space.write([kit.page(9)])[0]


def test_a_folder_that_cannot_be_made_is_one_sentence(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.folder.write_text("a file")

    with pytest.raises(StorageError, match=r"pages"):
        open_store(kit.folder, 1 << 20)


def test_without_direct_access_the_page_cache_is_used(kit: Any, system: Any) -> None:
    def refuse(path: Any, *, direct: bool = False, **options: Any) -> int:
        if direct:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return System.open(system, path, direct=False, **options)

    system.replace("open", refuse)
    space = kit.space(system=system)
    space.write(kit.chain(0, 3))

    assert not kit.opened[0].stats().direct
    assert kit.kept(space, kit.chain(0, 3)) == [True] * 3
    with pytest.raises(PageStoreError, match="O_DIRECT"):
        kit.open(system=system, direct=True)


def test_a_transfer_that_is_not_aligned_fails_loudly(tmp_path: Any) -> None:
    (tmp_path / "file").write_bytes(bytes(8192))
    descriptor = System().open(tmp_path / "file", write=True)
    buffer = AlignedBuffer(8192).view
    try:
        for view, offset in ((buffer[:4096], 512), (buffer[:1000], 0), (buffer[8:4104], 0)):
            with pytest.raises(AlignmentError, match="not aligned to 4096 bytes"):
                read_units(System(), descriptor, [view], offset)
            with pytest.raises(AlignmentError, match="not aligned to 4096 bytes"):
                write_units(System(), descriptor, [view], offset)
        with pytest.raises(OSError, match="ends too early"):
            read_units(System(), descriptor, [buffer], 4096)
    finally:
        os.close(descriptor)


def test_an_index_damaged_while_it_is_open_is_made_again(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = kit.chain(0, 5)
    space = kit.space()
    space.write(pages[:3])
    core = kit.opened[0]._session.core
    core.index.checkpoint()
    kit.damage_index()

    misses = kit.kept(space, pages[:3])
    core.index_is_damaged = True

    assert space.write(pages[3:]) == [None, None]
    assert kit.kept(space, pages) == [True] * 5, misses
    assert "was made again" in kit.opened[0].stats().problems[-1]
    assert kit.opened[0].verify().is_clean


def test_a_damaged_index_never_stops_a_look_up(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    space = kit.space()
    space.write([kit.page(1)])

    def damaged(*_: Any) -> Any:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(kit.opened[0]._session.core.index, "find", damaged)
        assert space.find([kit.page(1).identity]) == [None]
    assert space.write([kit.page(2)]) == [None]

    assert kit.kept(space, [kit.page(1), kit.page(2)]) == [True, True]


def test_a_row_that_does_not_fit_the_space_is_a_miss(kit: Any) -> None:
    pages = kit.chain(0, 3)
    space = kit.space()
    space.write(pages)
    writer = kit.opened[0]._session.core.index.writer
    writer.execute("UPDATE pages SET tokens = x'0011' WHERE identity = ?", [pages[0].identity])
    writer.execute("UPDATE pages SET checksums = x'00' WHERE identity = ?", [pages[1].identity])

    assert kit.kept(space, pages) == [False, False, True]


def test_a_fault_of_the_program_is_not_taken_for_success(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    space = kit.space()
    space.write([kit.page(1)])
    found = space.find([kit.page(1).identity])

    def faulty(*_: Any) -> Any:
        raise IndexError("a fault")

    monkeypatch.setattr("octavo.storage.pagestore.pieces.Piece.damage", faulty)

    with pytest.raises(IndexError, match="a fault"):
        kit.read(space, found)
    assert not kit.opened[0]._session.core.leases.held()


def test_a_read_under_way_is_not_cancelled(kit: Any, system: Any) -> None:
    """vllm#46283: an answer broken off during a load left its blocks behind. Buffers are in use until the end."""
    space = kit.space(system=system)
    space.write([kit.page(1)])
    (found,) = space.find([kit.page(1).identity])
    going_on = threading.Event()

    def slow(descriptor: int, parts: list[memoryview], offset: int) -> int:
        going_on.wait(10)
        return os.preadv(descriptor, parts, offset)

    system.replace("preadv", slow)
    out = bytearray(kit.layers * kit.record)
    future = space.submit_read([(found, 0, kit.layers, memoryview(out))])

    assert not future.cancel()
    assert kit.opened[0]._session.core.leases.held() == {found.page_id}
    going_on.set()
    assert future.result(timeout=10) == [None]
    assert bytes(out) == kit.page(1).data
    assert not kit.opened[0]._session.core.leases.held()
