"""RULER's definitions, counted in the text that a model would read."""

import math
import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from octavo.app.errors import AppError
from octavo.app.needle.word_tasks import common_words, frequent_words


@pytest.mark.parametrize(("num_tokens", "often", "seldom"), [(3000, 6, 1), (9000, 30, 3)])
def test_ten_words_are_common_and_all_others_are_not(tokenizer: Any, num_tokens: int, often: int, seldom: int) -> None:
    ids, question = common_words(tokenizer.encode, num_tokens, Random(0))

    assert len(ids) == num_tokens
    entries = re.findall(r" ([0-9]+)\. ([a-z]+)", tokenizer.decode(ids))
    assert [int(number) for number, _ in entries] == list(range(1, len(entries) + 1))
    counts = Counter(word for _, word in entries)
    assert {word for word, count in counts.items() if count == often} == set(question.expected)
    assert len(question.expected) == 10
    others = Counter(count for word, count in counts.items() if word not in question.expected)
    assert others[seldom] >= sum(others.values()) - 1, "but for the one that was cut at the end"
    assert others[seldom] > 100
    assert all(question.is_value(word) for word in counts)
    assert not question.is_value("list")


@pytest.mark.parametrize("num_tokens", [2000, 20_000])
def test_coded_words_follow_zetas_distribution_after_the_dots(tokenizer: Any, num_tokens: int) -> None:
    ids, question = frequent_words(tokenizer.encode, num_tokens, Random(0))

    assert len(ids) == num_tokens
    words = tokenizer.decode(ids).split(" ")[1:]
    counts = Counter(word for word in words if re.fullmatch("[a-z]{6}", word))
    assert [word for word, _ in counts.most_common(3)] == list(question.expected)
    most = counts.most_common(4)
    assert len({count for _, count in most}) == 4, "the third is clearly ahead"
    # Shares of 1 / (k^2 zeta(2)), rounded down, from k = 2 on: 15.2 %, 6.8 %, 3.8 %.
    num_words = most[0][1] * 4 * math.pi**2 / 6
    for rank, (_, count) in enumerate(most, start=2):
        assert count == pytest.approx(num_words / (rank**2 * math.pi**2 / 6), abs=2)
    assert Counter(words).most_common(1)[0][0] == "...."


def test_the_same_seed_asks_for_the_same_words(tokenizer: Any) -> None:
    for task in (common_words, frequent_words):
        assert task(tokenizer.encode, 3000, Random(5))[0] == task(tokenizer.encode, 3000, Random(5))[0]
        asked = [task(tokenizer.encode, 3000, Random(seed))[1].expected for seed in (5, 6)]
        assert asked[0] != asked[1]


def test_too_few_tokens_are_refused(tokenizer: Any) -> None:
    with pytest.raises(AppError, match="raise --tokens"):
        common_words(tokenizer.encode, 200, Random(0))
    with pytest.raises(AppError, match="raise --tokens"):
        frequent_words(tokenizer.encode, 30, Random(0))
