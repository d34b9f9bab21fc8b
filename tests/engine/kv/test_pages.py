"""Page bookkeeping against a plain model, and the exact order in which pages are reused."""

import hashlib
import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.engine.errors import OutOfPagesError
from octavo.engine.kv.pages import PagePool, chain

ROOT = b"root"


def fill(pool: PagePool, token_ids: list[int]) -> list[int]:
    """Allocate and complete the pages of `token_ids`, as a sequence would."""
    identity, pages = pool.root, []
    for start in range(0, len(token_ids), pool.page_size):
        page = pool.allocate()
        identity = pool.complete(page, identity, token_ids[start : start + pool.page_size])
        pages.append(page)
    return pages


def test_identity_is_sha256_over_parent_and_little_endian_token_ids() -> None:
    expected = hashlib.sha256(ROOT + struct.pack("<3I", 1, 2, 151_935)).digest()
    assert chain(ROOT, [1, 2, 151_935]) == expected


def test_equal_prefixes_share_pages_and_other_parents_do_not() -> None:
    pool = PagePool(8, 2, ROOT)
    first = fill(pool, [1, 2, 3, 4])
    assert pool.match([1, 2, 3, 4, 5]) == first
    assert pool.match([3, 4]) == []  # same tokens, other place
    assert pool.match([1, 2, 9, 9]) == first[:1]


def test_an_equal_hash_with_other_tokens_is_not_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.kv.pages.chain", lambda parent, tokens: b"always the same")
    pool = PagePool(4, 2, ROOT)
    fill(pool, [1, 2])
    assert pool.match([7, 8]) == []


def test_the_stalest_chain_goes_first_and_its_tail_before_its_head() -> None:
    pool = PagePool(4, 1, ROOT)
    old, new = fill(pool, [1, 2]), fill(pool, [3, 4])
    pool.release(old)
    pool.release(new)
    assert [pool.allocate() for _ in range(4)] == [old[1], old[0], new[1], new[0]]
    with pytest.raises(OutOfPagesError, match="All 4 KV pages are in use"):
        pool.allocate()


def test_a_reused_page_is_not_evicted() -> None:
    pool = PagePool(2, 1, ROOT)
    pages = fill(pool, [1, 2])
    pool.release(pages)
    assert pool.match([1]) == pages[:1]
    assert pool.allocate() == pages[1]
    with pytest.raises(OutOfPagesError):
        pool.allocate()


def test_the_first_page_under_an_identity_stays() -> None:
    pool = PagePool(2, 1, ROOT)
    first, second = fill(pool, [5]), fill(pool, [5])
    pool.release(first + second)
    assert pool.match([5]) == first
    assert pool.num_free == 1


def test_releasing_twice_is_an_error() -> None:
    pool = PagePool(2, 1, ROOT)
    page = pool.allocate()
    pool.release([page])
    with pytest.raises(ValueError, match="more often than it was taken"):
        pool.release([page])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["open", "close"]), st.integers(0, 5), st.integers(0, 9)), max_size=60))
def test_pages_are_conserved_and_prefixes_are_right(actions: list[tuple[str, int, int]]) -> None:
    """Sequences over a two-letter alphabet open (reusing what they can) and close in any order."""
    pool = PagePool(12, 2, ROOT)
    content: dict[int, list[int]] = {}  # page -> every token from the start of its sequence to its end
    open_: list[list[int]] = []
    for action, pick, size in actions:
        if action == "open":
            tokens = [(pick >> (i % 3)) & 1 for i in range(size)]
            pages = pool.match(tokens)
            for index, page in enumerate(pages):
                assert content[page] == tokens[: 2 * index + 2]
            identity = pool.identity_of(pages[-1]) if pages else pool.root
            try:
                for start in range(2 * len(pages), size - 1, 2):
                    pages.append(pool.allocate())
                    identity = pool.complete(pages[-1], identity, tokens[start : start + 2])
                    content[pages[-1]] = tokens[: start + 2]
            except OutOfPagesError:
                assert len({page for pages in open_ for page in pages} | set(pages)) == 12
            open_.append(pages)
        elif open_:
            pool.release(open_.pop(pick % len(open_)))
        pool.check_conservation()
        assert pool.num_held == len(Counter(page for pages in open_ for page in pages))
