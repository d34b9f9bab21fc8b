from itertools import repeat
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app.errors import AppError
from octavo.app.needle.filling import Needle, fill
from octavo.app.needle.haystacks import HAYSTACKS, Haystack


def encode(text: str) -> list[int]:
    """One token for each character."""
    return [ord(character) for character in text]


def decode(ids: list[int]) -> str:
    return "".join(map(chr, ids))


HAY = Haystack(lambda random: repeat("abcd "), "<{}>")


def test_a_needle_lies_between_the_segments_nearest_to_its_depth() -> None:
    text = decode(fill(encode, HAY, [Needle("x", 0.5), Needle("y", 0.0), Needle("z", 1.0)], 41, Random(0)))

    assert text == "<y>abcd abcd abcd <x>abcd abcd abcd <z>ab"


def test_needles_of_one_place_keep_the_order_of_their_depths() -> None:
    text = decode(fill(encode, HAY, [Needle("2", 0.02), Needle("1", 0.01)], 20, Random(0)))

    assert text == "<1><2>abcd abcd abcd"[:20]


@given(
    num_tokens=st.integers(40, 3000),
    depths=st.lists(st.floats(0, 1), max_size=5),
    kind=st.sampled_from(sorted(HAYSTACKS)),
    seed=st.integers(0, 5),
)
def test_any_length_is_exact_and_every_needle_is_there_once(
    num_tokens: int, depths: list[float], kind: str, seed: int
) -> None:
    haystack = HAYSTACKS[kind]
    needles = [Needle(f"{i}{i}", depth) for i, depth in enumerate(depths)]
    needles = [Needle(f"@{needle.sentence}@", needle.depth) for needle in needles][: num_tokens // 20]

    text = decode(fill(encode, haystack, needles, num_tokens, Random(seed)))

    assert len(text) == num_tokens
    for needle in needles:
        assert text.count(haystack.wrap(needle.sentence)) == 1


def test_needles_that_leave_no_room_for_a_haystack_are_refused() -> None:
    needle = Needle("x" * 98, 0.5)
    assert len(fill(encode, HAY, [needle], 200, Random(0))) == 200
    with pytest.raises(AppError, match=r"1 needles of 100 tokens do not leave half of 199 tokens"):
        fill(encode, HAY, [needle], 199, Random(0))
    with pytest.raises(AppError):
        fill(encode, HAY, [], -5, Random(0))
