"""Page bookkeeping against a plain model: identities, references, and the order in which pages grow stale."""

import hashlib
import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.engine.kv.pages import PageTable, chain

ROOT = b"root"


def fill(table: PageTable, token_ids: list[int]) -> list[int]:
    """Allocate and complete the pages of `token_ids`, as a sequence would."""
    identity, pages = table.root, []
    for start in range(0, len(token_ids), table.page_size):
        own = table.allocate()
        identity, page = table.complete(own, identity, token_ids[start : start + table.page_size], "prefill")
        if page != own:
            table.release([own])
        pages.append(page)
    return pages


def test_identity_is_sha256_over_parent_and_little_endian_token_ids() -> None:
    expected = hashlib.sha256(ROOT + struct.pack("<3I", 1, 2, 151_935)).digest()
    assert chain(ROOT, [1, 2, 151_935]) == expected


def test_equal_prefixes_share_pages_and_other_parents_do_not() -> None:
    table = PageTable(2, ROOT)
    first = fill(table, [1, 2, 3, 4])
    assert table.match([1, 2, 3, 4, 5]) == first
    assert table.match([3, 4]) == []  # same tokens, other place
    assert table.match([1, 2, 9, 9]) == first[:1]


def test_a_match_goes_on_from_any_page_of_a_chain() -> None:
    table = PageTable(2, ROOT)
    pages = fill(table, [1, 2, 3, 4, 5, 6])
    first = table.record_of(pages[0])
    assert first is not None
    assert table.match([3, 4, 5, 6], first.identity) == pages[1:]


def test_an_equal_hash_with_other_tokens_is_not_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.kv.pages.chain", lambda parent, tokens: b"always the same")
    table = PageTable(2, ROOT)
    (first,) = fill(table, [1, 2])
    assert table.match([7, 8]) == []
    (second,) = fill(table, [7, 8])
    assert second != first, "other text is never another page's text"
    assert table.record_of(second) is None


def test_the_stalest_chain_goes_first_and_its_tail_before_its_head() -> None:
    table = PageTable(1, ROOT)
    old, new = fill(table, [1, 2]), fill(table, [3, 4])
    table.release(old)
    table.release(new)
    assert list(table.stalest()) == [old[1], old[0], new[1], new[0]]
    assert table.match([1]) == [old[0]]
    assert list(table.stalest()) == [old[1], new[1], new[0]], "a page that is read again is not stale"


def test_the_first_page_under_an_identity_stays_and_serves_both() -> None:
    table = PageTable(1, ROOT)
    first, second = fill(table, [5]), fill(table, [5])
    assert first == second
    table.release(first)
    assert table.num_held == 1
    table.release(second)
    assert (table.num_held, table.num_cached) == (0, 1)


def test_a_disowned_page_is_not_found_and_is_free_when_nobody_holds_it() -> None:
    table = PageTable(1, ROOT)
    held, cached = fill(table, [1]), fill(table, [2])
    table.release(cached)
    for page in held + cached:
        table.disown(page)
    assert table.match([1]) == table.match([2]) == []
    assert (table.num_held, table.num_cached) == (1, 0)
    assert table.release(held) == held
    assert table.num_held == 0
    table.check_conservation()


def test_releasing_twice_is_an_error() -> None:
    table = PageTable(2, ROOT)
    page = table.allocate()
    assert table.release([page]) == [page]
    with pytest.raises(ValueError, match="more often than it was taken"):
        table.release([page])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "close", "discard"]), st.integers(0, 5), st.integers(0, 9)), max_size=60
    )
)
def test_pages_are_conserved_and_prefixes_are_right(actions: list[tuple[str, int, int]]) -> None:
    """Sequences over a two-letter alphabet open (reusing what they can), close and lose cached pages in any order."""
    table = PageTable(2, ROOT)
    content: dict[int, list[int]] = {}  # page -> every token from the start of its sequence to its end
    open_: list[list[int]] = []
    for action, pick, size in actions:
        if action == "open":
            tokens = [(pick >> (i % 3)) & 1 for i in range(size)]
            pages = table.match(tokens)
            for index, page in enumerate(pages):
                assert content[page] == tokens[: 2 * index + 2]
            record = table.record_of(pages[-1]) if pages else None
            identity = record.identity if record else table.root
            for start in range(2 * len(pages), size - 1, 2):
                own = table.allocate()
                identity, page = table.complete(own, identity, tokens[start : start + 2], "decode")
                if page != own:  # the chain was cut before it, by a discard
                    table.release([own])
                pages.append(page)
                content[page] = tokens[: start + 2]
            open_.append(pages)
        elif action == "close" and open_:
            table.release(open_.pop(pick % len(open_)))
        elif action == "discard":
            stale = list(table.stalest())
            if stale:
                table.disown(stale[pick % len(stale)])
        table.check_conservation()
        assert table.num_held == len(Counter(page for pages in open_ for page in pages))
