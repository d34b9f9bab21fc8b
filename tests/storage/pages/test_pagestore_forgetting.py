"""What an owner wants forgotten is on the disk no more, wherever it was; what others own stays."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from octavo.storage.pages import PageStoreError


def holds(folder: Path, data: bytes) -> bool:
    """Whether any file of the store holds these bytes."""
    return any(data in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def packed(tokens: tuple[int, ...]) -> bytes:
    return b"".join(token.to_bytes(4, "little") for token in tokens)


def test_forgotten_pages_are_in_no_file_any_more(kit: Any) -> None:
    """LMCache#4385: another conversation's pages were served from the disk."""
    ann, bob = kit.chain(1_000_000, 5), kit.chain(2_000_000, 4, owner="bob")
    space = kit.space()
    space.write([*ann[:3], *bob, *ann[3:]])
    assert holds(kit.folder, ann[2].data[:500])
    assert holds(kit.folder, packed(ann[2].token_ids))

    assert kit.opened[0].forget("ann") == 5 * kit.page_bytes

    assert kit.kept(space, [*ann, *bob]) == [False] * 5 + [True] * 4
    for page in ann:
        assert not holds(kit.folder, page.data[:500])
        assert not holds(kit.folder, page.identity)
        assert not holds(kit.folder, packed(page.token_ids))
    kit.lose_index_after_closing()
    assert kit.kept(kit.space(), [*ann, *bob]) == [False] * 5 + [True] * 4


def test_pages_with_another_owner_stay(kit: Any) -> None:
    pages = kit.chain(0, 4)
    space = kit.space()
    space.write(pages)
    space.add_owner([page.identity for page in pages[:2]], "bob")
    store = kit.opened[0]

    assert store.forget("ann") == 2 * kit.page_bytes
    assert kit.kept(space, pages) == [True, True, False, False]
    assert store.forget("nobody") == 0
    assert store.forget("bob") == 2 * kit.page_bytes
    assert kit.kept(space, pages) == [False] * 4
    assert store.stats().num_segments == 0


def test_writing_a_page_again_makes_its_owner_one_of_them(kit: Any) -> None:
    page = kit.page(1)
    space = kit.space()
    space.write([page])
    space.write([kit.page(1, owner="bob")])
    store = kit.opened[0]

    assert store.forget("ann") == 0
    assert kit.kept(space, [page]) == [True]
    assert store.forget("bob") == kit.page_bytes


def test_a_shared_page_is_forgotten_with_its_last_owner_even_if_the_index_was_lost_between(kit: Any) -> None:
    page = kit.page(1)
    space = kit.space()
    space.write([page])
    space.add_owner([page.identity], "bob")
    kit.opened[0].forget("ann")

    kit.lose_index_after_closing()
    space = kit.space()
    assert kit.kept(space, [page]) == [True]
    assert kit.opened[0].verify().is_clean

    assert kit.opened[0].forget("ann") == 0
    assert kit.opened[0].forget("bob") == kit.page_bytes


def test_evicted_pages_are_erased_along_with_their_owner(kit: Any) -> None:
    """Eviction leaves the bytes where they are; forgetting must find them there, too."""
    ann, bob = kit.chain(1_000_000, 3), kit.chain(2_000_000, 3, owner="bob")
    space = kit.space()
    space.write([*ann, *bob])
    kit.evict(ann[0])
    assert kit.kept(space, ann) == [False, True, True]
    assert holds(kit.folder, ann[0].data[:500])

    kit.opened[0].forget("ann")

    assert not holds(kit.folder, ann[0].data[:500])
    assert kit.kept(space, bob) == [True] * 3


def test_where_no_holes_can_be_made_the_bytes_are_overwritten(kit: Any, system: Any) -> None:
    system.replace("punch", lambda *_: False)
    ann, bob = kit.chain(1_000_000, 3), kit.chain(2_000_000, 1, owner="bob")
    space = kit.space(system=system)
    space.write([*ann, *bob])

    kit.opened[0].forget("ann")

    assert not any(holds(kit.folder, page.data[:500]) for page in ann)
    assert kit.kept(space, bob) == [True]


def test_what_the_disk_did_not_let_be_erased_is_told_and_erased_later(kit: Any, system: Any) -> None:
    ann, bob = kit.chain(1_000_000, 3), kit.chain(2_000_000, 1, owner="bob")
    space = kit.space(system=system)
    space.write([*ann, *bob])
    system.fail("pwritev", errno.EIO)

    with pytest.raises(PageStoreError, match="Not all pages of ann could be erased"):
        kit.opened[0].forget("ann")

    system.heal()
    space = kit.space(system=system)
    assert kit.kept(space, [*ann, *bob]) == [False] * 3 + [True]
    assert not any(holds(kit.folder, page.data[:500]) for page in ann)


def test_clearing_leaves_nothing(kit: Any) -> None:
    pages = kit.chain(1_000_000, 5)
    space = kit.space()
    space.write(pages)

    assert kit.opened[0].clear() > 5 * kit.page_bytes

    assert not kit.segments()
    assert kit.kept(space, pages) == [False] * 5
    assert not holds(kit.folder, packed(pages[0].token_ids))
    assert space.write(pages) == [None] * 5
