"""Pages come back as they were written, to whoever asks for exactly them."""

from __future__ import annotations

import hashlib
import random
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from octavo.storage.pages import PageStoreBusyError, PageStoreMissingError, open_store


@pytest.mark.parametrize("direct", [None, False])
def test_pages_are_read_as_written_here_and_after_a_restart(kit: Any, direct: bool | None) -> None:
    pages = kit.chain(0, 40)
    space = kit.space(direct=direct)

    assert space.write(pages[:25]) == [None] * 25
    assert space.write(pages[25:]) == [None] * 15
    assert kit.kept(space, pages) == [True] * 40
    space = kit.space(direct=direct)
    found = space.find([page.identity for page in pages])

    assert [(page.identity, page.parent, page.token_ids, page.origin) for page in found] == [
        (page.identity, page.parent, page.token_ids, page.origin) for page in pages
    ]
    assert kit.kept(space, pages) == [True] * 40


def test_single_layers_are_read_in_any_order(kit: Any) -> None:
    pages = kit.chain(0, 12)
    space = kit.space()
    space.write(pages)
    found = space.find([page.identity for page in pages])
    wanted = [(number, layer) for number in (7, 3, 4, 11, 3) for layer in (2, 0)]
    buffers = [bytearray(kit.record) for _ in wanted]

    reads = [(found[n], layer, 1, memoryview(out)) for (n, layer), out in zip(wanted, buffers, strict=True)]
    assert space.submit_read(reads).result(timeout=10) == [None] * len(wanted)

    for (number, layer), out in zip(wanted, buffers, strict=True):
        assert bytes(out) == pages[number].data[layer * kit.record : (layer + 1) * kit.record]


@pytest.mark.parametrize("record", [64, 704, 4096, 7168])
def test_any_layers_are_read_together_wherever_their_units_begin(kit: Any, record: int) -> None:
    """Records lie side by side: neighbours share units, and a read of some layers begins inside one."""
    kit.layers, kit.record = 9, record
    space, pages = kit.space(), kit.chain(0, 4)
    space.write(pages)
    found = space.find([page.identity for page in pages])
    ranges = [(first, end) for first in range(9) for end in range(first + 1, 10)]
    wanted = [(page, stored, *layers) for page, stored in zip(pages, found, strict=True) for layers in ranges]
    random.Random(record).shuffle(wanted)
    outs = [bytearray((end - first) * record) for _, _, first, end in wanted]

    reads = [
        (stored, first, end - first, memoryview(out)) for (_, stored, first, end), out in zip(wanted, outs, strict=True)
    ]
    assert space.read(reads) == [None] * len(wanted)

    assert outs == [page.data[first * record : end * record] for page, _, first, end in wanted]


def test_nothing_to_read_is_read_at_once(kit: Any) -> None:
    assert kit.space().submit_read([]).result(timeout=1) == []


def test_many_threads_read_and_find_while_one_writes(kit: Any) -> None:
    pages = kit.chain(0, 60)
    space = kit.space()
    space.write(pages[:20])

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(kit.kept, space, pages[:20]) for _ in range(12)]
        for begin in range(20, 60, 5):
            assert space.write(pages[begin : begin + 5]) == [None] * 5
        assert all(reader.result() == [True] * 20 for reader in readers)

    assert kit.kept(space, pages) == [True] * 60


@pytest.mark.parametrize("other", ["root", "settings", "shape"])
def test_another_model_or_other_settings_never_match(kit: Any, other: str) -> None:
    """sglang#24758: pages were used again with other weights."""
    pages = kit.chain(0, 3)
    store = kit.open()
    kit.space_of(store).write(pages)
    if other == "root":
        space = kit.space_of(store, root=hashlib.sha256(b"other weights").digest())
    elif other == "settings":
        space = kit.space_of(store, codec="k8v4")
    else:
        space = store.open_space(kit.root, {"codec": "bf16"}, kit.layers, kit.record * 2, 8)

    assert space.find([page.identity for page in pages]) == [None] * 3


def test_equal_settings_in_another_order_are_the_same_space(kit: Any) -> None:
    store = kit.open()
    one = store.open_space(kit.root, {"a": 1, "b": [2]}, kit.layers, kit.record, 8)
    same = store.open_space(kit.root, {"b": [2], "a": 1}, kit.layers, kit.record, 8)
    one.write([kit.page(1)])

    assert kit.kept(same, [kit.page(1)]) == [True]


def test_the_first_page_under_an_identity_stays(kit: Any) -> None:
    page = kit.page(1)
    space = kit.space()

    assert space.write([page, replace(page, data=bytes(len(page.data)))]) == [None, None]
    assert space.write([replace(page, data=bytes(len(page.data)), origin="decode")]) == [None]

    assert kit.kept(space, [page]) == [True]
    (found,) = space.find([page.identity])
    assert found is not None
    assert found.origin == "prefill"


def test_an_identity_with_other_tokens_is_refused(kit: Any) -> None:
    """openvino.genai#3722: equal hashes were taken for equal tokens."""
    page = kit.page(1)
    other = replace(page, token_ids=(9,) * 8)
    space = kit.space()

    first, second = space.write([page, other])
    (third,) = space.write([other])

    assert first is None
    assert second == third == "The page was not kept: another page has its identity, but other tokens."
    (found,) = space.find([page.identity])
    assert found.token_ids == page.token_ids


@pytest.mark.parametrize(
    "change",
    [{"data": b""}, {"token_ids": (1,)}, {"identity": b"short"}, {"owner": ""}, {"owner": "o" * 300}, {"origin": "?"}],
)
def test_a_page_of_another_shape_is_a_fault_of_the_caller(kit: Any, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"page|owner"):
        kit.space().write([replace(kit.page(1), **change)])


def test_a_read_of_layers_that_are_not_there_is_a_fault_of_the_caller(kit: Any) -> None:
    space = kit.space()
    space.write([kit.page(1)])
    (found,) = space.find([kit.page(1).identity])

    with pytest.raises(ValueError, match="3 layers"):
        space.read([(found, 2, 2, memoryview(bytearray(2 * kit.record)))])
    with pytest.raises(ValueError, match="1 x 4000 bytes"):
        space.read([(found, 2, 1, memoryview(bytearray(3)))])


def test_dropped_pages_are_gone(kit: Any) -> None:
    pages = kit.chain(0, 3)
    space = kit.space()
    space.write(pages)

    space.drop([pages[1].identity])

    assert kit.kept(space, pages) == [True, False, True]
    assert space.write([pages[1]]) == [None]
    assert kit.kept(space, pages) == [True] * 3


def test_neighbours_are_read_in_one_go(kit: Any, system: Any) -> None:
    pages = kit.chain(0, 16)
    space = kit.space(system=system)
    space.write(pages)
    before = system.num_calls["preadv"]

    assert kit.kept(space, pages) == [True] * 16

    assert system.num_calls["preadv"] - before == 1


def test_a_batch_is_synced_once(kit: Any, system: Any) -> None:
    space = kit.space(system=system)
    space.write([kit.page(0)])
    syncs, writes = system.num_calls["sync"], system.num_calls["pwritev"]

    space.write(kit.chain(1, 16))

    assert (system.num_calls["sync"] - syncs, system.num_calls["pwritev"] - writes) == (1, 1)


def test_files_are_private(kit: Any) -> None:
    kit.space().write([kit.page(1)])

    kit.opened[0].pin("ann")

    for path in (kit.folder, *kit.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_open_to_others_is_closed_to_them(kit: Any) -> None:
    kit.folder.mkdir(mode=0o755)

    kit.open()

    assert stat.S_IMODE(kit.folder.stat().st_mode) == 0o700


def test_a_second_one_reads_but_never_writes(kit: Any) -> None:
    pages = kit.chain(0, 4)
    space = kit.space()
    space.write(pages[:2])

    with open_store(kit.folder, 64 << 20) as second:
        assert not second.writable
        assert "Another process writes the page store" in second.stats().problems[0]
        other = kit.space_of(second)
        assert kit.kept(other, pages[:2]) == [True, True]
        assert other.write(pages[2:]) == [f"The page store {kit.folder} is open for reading only."] * 2
        other.add_owner([pages[0].identity], "bob")
        with pytest.raises(PageStoreBusyError, match="reading only"):
            second.forget("ann")
        space.write(pages[2:])
        assert kit.kept(other, pages) == [True] * 4

    kit.close()
    assert kit.kept(kit.space(), pages) == [True] * 4


def test_reading_what_is_not_there_is_told(kit: Any) -> None:
    with pytest.raises(PageStoreMissingError, match="no page store"):
        open_store(kit.folder, None, write=False)


def test_what_was_written_and_used_is_counted_over_restarts(kit: Any) -> None:
    pages = kit.chain(0, 5)
    space = kit.space()
    space.write(pages)
    written = kit.opened[0].stats().bytes_written_lifetime
    assert written == 5 * kit.page_bytes

    space = kit.space()
    kit.kept(space, [*pages, kit.page(99)])
    stats = kit.opened[0].stats()

    assert (stats.bytes_written_lifetime, stats.num_pages, stats.hits, stats.misses) == (written, 5, 5, 1)
    assert stats.bytes_on_disk == kit.bytes_on_disk()
    assert stats.bytes_in_pages == 5 * kit.page_bytes
    assert stats.bytes_read > 0
