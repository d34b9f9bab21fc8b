"""What is cheap to know of a page store, and who has how much in it."""

from __future__ import annotations

from types import SimpleNamespace

from octavo.storage.pages import open_store


def page(number, owner):
    return SimpleNamespace(
        identity=bytes([number]) * 32,
        parent=bytes([number - 1]) * 32,
        token_ids=tuple(range(32)),
        owner=owner,
        origin="prefill",
        data=memoryview(bytes(2 * 4096)),
    )


def test_usage_agrees_with_the_statistics_for_writers_and_readers(tmp_path):
    with open_store(tmp_path, 1 << 30) as store:
        space = store.open_space(bytes(32), {}, 2, 4096, 32)
        assert space.write([page(number, "a") for number in range(1, 9)]) == [None] * 8
        stats, usage = store.stats(), store.usage()
        assert (usage.bytes_on_disk, usage.cap) == (stats.bytes_on_disk, 1 << 30)
        assert usage.written >= 8 * 2 * 4096
        with open_store(tmp_path, None, write=False) as reader:
            assert reader.usage().bytes_on_disk == reader.stats().bytes_on_disk
    with open_store(tmp_path, 1 << 30) as again:
        assert again.usage().written == 0, "counted since it was opened"


def test_owners_are_told_with_their_pages_and_what_they_share(tmp_path):
    with open_store(tmp_path, 1 << 30) as store:
        space = store.open_space(bytes(32), {}, 2, 4096, 32)
        space.write([*(page(number, "a") for number in range(1, 6)), *(page(number, "b") for number in range(6, 8))])
        space.add_owner([bytes([1]) * 32, bytes([2]) * 32], "b")
        found = {use.owner: use for use in store.owners()}
        assert [use.owner for use in store.owners()] == ["a", "b"]
        assert (found["a"].num_pages, found["a"].num_shared) == (5, 2)
        assert (found["b"].num_pages, found["b"].num_shared) == (4, 2)
        assert found["a"].num_bytes >= 5 * 2 * 4096
        assert found["a"].last_use > 0
        store.forget("a")
        assert {use.owner: use.num_pages for use in store.owners()} == {"b": 4}
