"""An index that is lost or damaged is made again from what lies in the segments."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest


@pytest.fixture
def two_spaces(kit: Any) -> tuple[list[Any], list[Any]]:
    """Pages of two spaces in one store, some of them dropped again; the store is closed."""
    store = kit.open(4 << 20)
    one, other = kit.space_of(store), kit.space_of(store, codec="k4v4")
    pages, others = kit.chain(0, 60), kit.chain(100, 30)
    one.write(pages)
    other.write(others)
    one.drop([page.identity for page in pages[40:]])
    kit.close()
    return pages, others


def check_found_again(kit: Any, pages: list[Any], others: list[Any]) -> None:
    store = kit.open(4 << 20)
    one, other = kit.space_of(store), kit.space_of(store, codec="k4v4")
    assert kit.kept(one, pages) == [True] * 40 + [False] * 20
    assert kit.kept(other, others) == [True] * 30
    assert kit.kept(other, pages) == [False] * 60
    assert store.verify().is_clean
    assert store.verify().num_pages == 70
    assert "70 pages were found again" in store.stats().problems[0]
    assert store.stats().bytes_written_lifetime >= 90 * kit.page_bytes
    assert one.write(pages[40:]) == [None] * 20
    assert kit.kept(one, pages) == [True] * 60
    assert store.forget("ann") == 90 * kit.page_bytes


def test_a_lost_index_is_made_again(kit: Any, two_spaces: Any) -> None:
    kit.lose_index_after_closing()
    check_found_again(kit, *two_spaces)


@pytest.mark.parametrize("size", ["whole", "half", "empty", "text"])
def test_a_damaged_index_is_made_again(kit: Any, two_spaces: Any, size: str) -> None:
    index = kit.folder / "index.db"
    if size == "whole":
        kit.damage_index()
    elif size == "half":
        os.truncate(index, index.stat().st_size // 2)
    elif size == "empty":
        os.truncate(index, 0)
    else:
        index.write_text("this is not a database, but it is longer than its header would be" * 4)
    check_found_again(kit, *two_spaces)


def test_damaged_pages_are_not_taken_up(kit: Any) -> None:
    pages = kit.chain(0, 8)
    kit.space().write(pages)
    kit.close()
    with kit.segments()[0].open("r+b") as file:
        file.seek(2 * kit.page_bytes + 100)  # a header
        file.write(b"\xff")
        file.seek(5 * kit.page_bytes + 4096)  # a layer
        file.write(bytes(4000))
    kit.lose_index_after_closing()

    space = kit.space()

    assert kit.kept(space, pages) == [number not in (2, 5) for number in range(8)]
    assert space.write(pages) == [None] * 8
    assert kit.opened[0].verify().is_clean


def test_a_segment_under_another_number_is_not_taken_up(kit: Any) -> None:
    """A page says where it lies: a copy, or a file put back at another place, is not it."""
    pages = kit.chain(0, 3)
    kit.space().write(pages)
    kit.close()
    shutil.move(kit.segments()[0], kit.folder / "00000007.pages")
    kit.lose_index_after_closing()

    assert kit.kept(kit.space(), pages) == [False] * 3


def test_a_segment_that_the_index_does_not_know_is_searched(kit: Any) -> None:
    pages, more = kit.chain(0, 3), kit.chain(10, 3)
    kit.space(4 << 20).write(pages)
    kit.close()
    shutil.copytree(kit.folder, kit.folder.with_name("before"))
    space = kit.space(4 << 20)
    space.write(kit.chain(100, 29))
    space.write(more)
    kit.close()
    assert len(kit.segments()) == 2
    # The index of an earlier time, as from a backup, beside the segments of now.
    for path in kit.folder.with_name("before").glob("index.db*"):
        shutil.copy(path, kit.folder)

    space = kit.space(4 << 20)

    assert kit.kept(space, [*pages, *more]) == [True] * 6
    assert kit.bytes_on_disk() <= 4 << 20


def test_a_probe_left_behind_and_foreign_files_are_no_segments(kit: Any) -> None:
    kit.space().write([kit.page(1)])
    kit.close()
    for name in ("probe-1", "notes.txt", "1.pages", "x0000001.pages"):
        (kit.folder / name).write_bytes(bytes(100))

    assert kit.kept(kit.space(), [kit.page(1)]) == [True]
    assert kit.opened[0].stats().num_segments == 1


@pytest.mark.parametrize("owner", ["ann", "document:7f", "a/b %2F ü.", ".."])
@pytest.mark.parametrize("end", ["lost", "damaged", "damaged while open"])
def test_pins_outlive_the_index(kit: Any, owner: str, end: str) -> None:
    space = kit.space(4 << 20)
    space.write(kit.chain(0, 60, owner=owner))
    kit.opened[0].pin(owner)
    kit.opened[0].pin("nobody any more")
    kit.opened[0].pin("nobody any more", False)
    if end == "lost":
        kit.lose_index_after_closing()
        space = kit.space(4 << 20)
    elif end == "damaged":
        kit.close()
        kit.damage_index()
        space = kit.space(4 << 20)
    else:
        kit.opened[0]._session.core.index_is_damaged = True
        space.write(kit.chain(90, 1))
    store = kit.opened[0]
    assert store.pinned() == {owner}
    for begin in range(1_000, 1_600, 8):
        space.write(kit.chain(begin, 8, owner="document:2"))
    assert kit.kept(space, kit.chain(0, 60)) == [True] * 60
    assert [use.pinned for use in store.owners() if use.owner == owner] == [True]


def test_pins_that_only_a_lost_index_knew_are_said_to_be_lost(kit: Any) -> None:
    kit.space().write(kit.chain(0, 4))
    kit.opened[0].pin("ann")
    kit.close()
    shutil.rmtree(kit.folder / "pins")  # a store from before there was such a folder
    assert kit.open().pinned() == {"ann"}, "while the index has them, they are laid down"
    kit.lose_index_after_closing()
    assert kit.open().pinned() == {"ann"}
    assert "pin" not in kit.opened[0].stats().problems[0]
    kit.lose_index_after_closing()
    shutil.rmtree(kit.folder / "pins")
    assert kit.open().pinned() == frozenset()
    assert kit.opened[0].stats().problems[0].endswith("What was pinned in it is not known any more; pin it again.")


@pytest.mark.parametrize("end", ["unpin", "forget", "clear"])
def test_what_is_pinned_no_longer_is_not_pinned_again(kit: Any, end: str) -> None:
    kit.space().write(kit.chain(0, 4))
    store = kit.opened[0]
    store.pin("ann")
    {"unpin": lambda: store.pin("ann", False), "forget": lambda: store.forget("ann"), "clear": store.clear}[end]()
    kit.space().write(kit.chain(10, 4))
    assert kit.opened[0].pinned() == frozenset()
    kit.lose_index_after_closing()
    assert kit.open().pinned() == frozenset()
