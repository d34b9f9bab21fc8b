import re

import pytest

from octavo.app.needle.scoring import count_found

FIVE_DIGITS = re.compile(r"\d{5}").fullmatch


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("48213", 1),
        (" 48213.", 1),
        ("It is 48213, I think.", 1),
        ("Of 3 places in 2024, it is **48213**", 1),
        ("48213 48213 11111", 1),
        ("11111, or 48213", 0),  # another value stands before it
        ("148213", 0),
        ("482130", 0),
        ("x48213", 0),
        ("48,213", 0),
        ("4821", 0),
        ("", 0),
    ],
)
def test_one_number_is_found_as_a_whole_word_before_any_other(answer: str, found: int) -> None:
    assert count_found(answer, ["48213"], FIVE_DIGITS) == found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("11111, 22222 and 33333", 3),
        ("33333 11111 22222", 3),
        ("11111, 11111, 11111, 22222", 2),
        ("11111, 99999, 22222, 33333", 2),  # the fourth number is one too many
        ("none", 0),
    ],
)
def test_of_several_values_any_order_counts_but_no_more_guesses_than_values(answer: str, found: int) -> None:
    assert count_found(answer, ["11111", "22222", "33333"], FIVE_DIGITS) == found


def test_words_that_are_no_value_take_no_place() -> None:
    vocabulary = frozenset({"apple", "pear", "plum"})

    assert count_found("The most common words: 1. apple 2. plum", ["apple", "pear"], vocabulary.__contains__) == 1
    assert count_found("The most common words: 1. Apple 2. pears", ["apple", "pear"], vocabulary.__contains__) == 0
