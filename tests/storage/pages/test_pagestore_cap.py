"""The cap holds, whatever is there already, and what goes first is what is worth least."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from octavo.storage.pagestore.extents import ExtentMap, run_slots

CAP = 4 << 20  # 8 segments of half a MiB under it at most, 32 pages in each


def test_the_cap_is_never_passed_and_the_newest_pages_stay(kit: Any) -> None:
    pages = kit.chain(0, 600)
    space = kit.space(CAP)
    for begin in range(0, 600, 8):
        assert space.write(pages[begin : begin + 8]) == [None] * 8
        assert kit.bytes_on_disk() <= CAP

    kept = kit.kept(space, pages)

    assert kept[-100:] == [True] * 100
    assert sum(kept) * kit.page_bytes > CAP * 0.7
    assert kit.opened[0].stats().evicted == 600 - sum(kept)
    assert kit.opened[0].verify().is_clean


def test_what_is_on_the_disk_at_the_start_counts(kit: Any) -> None:
    """LMCache#1454: the limit ignored what was there already."""
    pages = kit.chain(0, 200)
    kit.space(CAP).write(pages)
    space = kit.space(CAP)
    for begin in range(1000, 1300, 10):
        space.write(kit.chain(begin, 10))
        assert kit.bytes_on_disk() <= CAP


def test_a_smaller_cap_takes_hold_when_the_store_is_opened(kit: Any) -> None:
    pages = kit.chain(0, 200)
    kit.space(CAP).write(pages)

    space = kit.space(CAP // 2)

    assert kit.bytes_on_disk() <= CAP // 2
    kept = kit.kept(space, pages)
    # The head of the chain is what makes the rest of use.
    assert kept == [True] * sum(kept) + [False] * (200 - sum(kept))
    assert sum(kept) > 60
    assert kit.opened[0].verify().is_clean


def test_the_longest_unused_goes_first_and_of_a_chain_its_tail(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))
    for module in ("space", "writing"):
        monkeypatch.setattr(f"octavo.storage.pagestore.{module}.now", lambda: next(clock))
    old, used, filler = kit.chain(0, 40), kit.chain(1000, 40), kit.chain(2000, 120)
    space = kit.space(CAP)
    for chain in (used, old, filler):
        space.write(chain)
    kit.kept(space, used)
    more = kit.chain(3000, 60)
    for begin in range(0, 60, 4):
        space.write(more[begin : begin + 4])

    kept = kit.kept(space, old)

    assert kit.kept(space, used) == [True] * 40
    assert kit.kept(space, more) == [True] * 60
    assert 0 < sum(kept) < 40 or not any(kept)
    assert kept == [True] * sum(kept) + [False] * (40 - sum(kept))


def test_pages_of_documents_go_last(kit: Any) -> None:
    document, space = kit.chain(0, 60, owner="document:1"), kit.space(CAP)
    space.write(document)
    for begin in range(1000, 1600, 8):
        assert space.write(kit.chain(begin, 8)) == [None] * 8
        assert kit.bytes_on_disk() <= CAP
    assert kit.kept(space, document) == [True] * 60
    for begin in range(5000, 5400, 8):  # but the cap holds where there is nothing else
        space.write(kit.chain(begin, 8, owner="document:2"))
        assert kit.bytes_on_disk() <= CAP
    assert not all(kit.kept(space, document))


def test_pinned_pages_stay_whatever_else_is_written(kit: Any) -> None:
    mine, space = kit.chain(0, 60, owner="mine"), kit.space(CAP)
    space.write(mine)
    kit.opened[0].pin("mine")
    for begin in range(1_000, 1_600, 8):
        assert space.write(kit.chain(begin, 8, owner="document:2")) == [None] * 8
    assert kit.kept(space, mine) == [True] * 60
    assert {use.owner: use.pinned for use in kit.opened[0].owners()} == {"mine": True, "document:2": False}

    space = kit.space(CAP)
    assert kit.opened[0].owners()[-1].pinned, "it outlives the process"
    kit.opened[0].pin("mine", False)
    for begin in range(2_000, 2_600, 8):
        space.write(kit.chain(begin, 8, owner="document:2"))
    assert not any(kit.kept(space, mine))


def test_where_everything_is_pinned_what_is_new_finds_no_room_and_the_cap_holds(kit: Any) -> None:
    mine, space = kit.chain(0, 300, owner="mine"), kit.space(CAP)
    kit.opened[0].pin("mine")
    written = space.write(mine)
    assert None in written
    assert any("limit" in reason for reason in written if reason)
    assert kit.bytes_on_disk() <= CAP
    space = kit.space(CAP // 2)
    assert kit.bytes_on_disk() <= CAP // 2, "the cap is harder than a pin"
    assert kit.opened[0].verify().is_clean


def test_forgetting_and_clearing_take_the_pin_away(kit: Any) -> None:
    for end in ("forget", "clear"):
        space = kit.space(CAP)
        space.write(kit.chain(0, 4, owner="mine"))
        kit.opened[0].pin("mine")
        kit.opened[0].forget("mine") if end == "forget" else kit.opened[0].clear()
        space.write(kit.chain(0, 4, owner="mine"))
        assert [use.pinned for use in kit.opened[0].owners()] == [False]


def test_an_index_from_before_there_were_pins_is_used_as_it_is(kit: Any) -> None:
    pages = kit.chain(0, 4)
    kit.space(CAP).write(pages)
    kit.close()
    with sqlite3.connect(kit.folder / "index.db") as index:
        index.execute("DROP TABLE pins")
    index.close()
    kit.open(write=False)
    assert [use.pinned for use in kit.opened[0].owners()] == [False]
    space = kit.space(CAP)
    kit.opened[0].pin("ann")
    assert kit.kept(space, pages) == [True] * 4
    assert [use.pinned for use in kit.opened[0].owners()] == [True]


def test_pages_being_read_are_not_evicted(kit: Any) -> None:
    pages = kit.chain(0, 64)
    space = kit.space(CAP)
    space.write(pages)
    core = kit.opened[0]._session.core
    held = [page.page_id for page in space.find([page.identity for page in pages[:3]])]
    core.leases.hold(held)

    for begin in range(1000, 2000, 50):
        space.write(kit.chain(begin, 50))

    core.leases.release(held)
    assert kit.kept(space, pages) == [True] * 3 + [False] * 61


def test_a_store_full_of_pages_being_read_refuses_in_words(kit: Any) -> None:
    pages = kit.chain(0, 220)
    space = kit.space(CAP)
    space.write(pages)
    core = kit.opened[0]._session.core
    held = [page.page_id for page in core.index.pages()]
    core.leases.hold(held)

    results = space.write(kit.chain(1000, 100))

    assert results[0] is None
    assert results[-1] == f"The page store is at its limit of {CAP:,} bytes."
    core.leases.release(held)
    assert space.write(kit.chain(1000, 100)) == [None] * 100


def test_another_models_old_pages_make_room(kit: Any) -> None:
    store = kit.open(CAP)
    old = kit.space_of(store)
    for begin in range(0, 200, 10):
        old.write(kit.chain(begin, 10))
    wide = store.open_space(kit.root, {"codec": "f32"}, 5, 9000, 8)
    kit.layers, kit.record = 5, 9000
    pages = kit.chain(5000, 40)

    for begin in range(0, 40, 4):
        assert wide.write(pages[begin : begin + 4]) == [None] * 4

    assert kit.kept(wide, pages) == [True] * 40
    assert kit.bytes_on_disk() <= CAP
    assert store.verify().is_clean


def test_a_page_larger_than_the_cap_is_refused_and_drops_nothing(kit: Any) -> None:
    pages = kit.chain(0, 20)
    store = kit.open(CAP)
    space = kit.space_of(store)
    space.write(pages)
    huge = store.open_space(kit.root, {}, 1, CAP, 8)
    kit.layers, kit.record = 1, CAP

    assert huge.write([kit.page(1)]) == [f"A page needs more than the page store's limit of {CAP:,} bytes."]

    kit.layers, kit.record = 3, 4000
    assert kit.kept(space, pages) == [True] * 20


def test_a_page_larger_than_every_segment_gets_one_of_its_own(kit: Any) -> None:
    store = kit.open(CAP)
    space = kit.space_of(store)
    for begin in range(0, 220, 20):
        space.write(kit.chain(begin, 20))
    large = store.open_space(kit.root, {}, 1, 1 << 20, 8)
    kit.layers, kit.record = 1, 1 << 20

    assert large.write([kit.page(1)]) == [None]

    assert kit.kept(large, [kit.page(1)]) == [True]
    assert kit.bytes_on_disk() <= CAP


def test_without_a_cap_the_store_does_not_grow(kit: Any) -> None:
    kit.space(CAP).write(kit.chain(0, 20))
    size = kit.segments()[0].stat().st_size

    space = kit.space(None)
    for begin in range(1000, 1100, 10):
        assert space.write(kit.chain(begin, 10)) == [None] * 10

    assert [path.stat().st_size for path in kit.segments()] == [size]


def test_compaction_removes_the_segments_that_are_mostly_free(kit: Any) -> None:
    pages = kit.chain(0, 120)
    space = kit.space(CAP)
    for begin in range(0, 120, 10):
        space.write(pages[begin : begin + 10])
    found = space.find([page.identity for page in pages])
    space.drop([page.identity for page in pages if page.token_ids[0] % 4])
    before = kit.bytes_on_disk()
    assert len(kit.segments()) == 4

    freed = kit.opened[0].compact()

    assert freed == 3 * CAP // 8
    assert kit.bytes_on_disk() <= before - freed + (1 << 20)
    assert kit.kept(space, pages) == [number % 4 == 0 for number in range(120)]
    # Whoever looked the pages up before they moved reads them where they are now.
    assert kit.read(space, found[:1]) == [pages[0].data]
    assert kit.opened[0].verify().is_clean
    kit.lose_index_after_closing()
    assert kit.kept(kit.space(CAP), pages) == [number % 4 == 0 for number in range(120)]


@pytest.mark.parametrize("slot_units", [1, 2, 3, 4, 17, 49, 64, 65, 416, 1000])
def test_runs_waste_little_of_a_segment(slot_units: int) -> None:
    segment = 65_536 if slot_units > 9 else 4096
    extents = ExtentMap()
    extents.add_segment(1, segment)
    while extents.add_run(1, slot_units):
        extents.take(1, 10**6)

    assert extents.used_units(1) >= 0.95 * segment
    assert sum(count for _, count in extents.free_ranges(1)) == segment - extents.used_units(1)


def test_a_run_fits_its_segment() -> None:
    for segment in (1, 5, 64, 100, 1000):
        for slot_units in range(1, 70):
            assert run_slots(slot_units, segment) * slot_units <= segment
            assert (run_slots(slot_units, segment) > 0) == (slot_units <= segment)


def test_a_page_written_again_was_used(kit: Any) -> None:
    first = kit.chain(0, 8)
    space = kit.space(CAP)
    space.write(first)
    for begin in range(1000, 1320, 8):
        space.write(kit.chain(begin, 8))
        space.write(first)
    assert kit.opened[0].stats().evicted > 0

    assert kit.kept(space, first) == [True] * 8
