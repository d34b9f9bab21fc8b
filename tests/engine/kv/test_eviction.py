"""TwoFactor against its definition: what it remembers, whom it gives up, and what it learns."""

from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from octavo.engine.kv.eviction import SAMPLE, TwoFactor


def keys(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


@given(
    window=st.integers(1, 12),
    calls=st.lists(st.tuples(st.sampled_from(["select", "read", "forget"]), st.lists(st.integers(0, 7), max_size=9))),
)
@settings(max_examples=100, deadline=None)
def test_frequency_counts_the_selections_of_the_window_and_age_the_reads(
    window: int, calls: list[tuple[str, list[int]]]
) -> None:
    policy = TwoFactor(8, window=window)
    recent: deque[int | None] = deque(maxlen=window)  # None: selected before it was forgotten
    last: dict[int, int] = {}
    now = 0
    for call, numbers in calls:
        if call == "forget":
            policy.forget(keys(*numbers))
            recent = deque((None if key in numbers else key for key in recent), maxlen=window)
            last = {key: read for key, read in last.items() if key not in numbers}
            continue
        policy.touch(keys(*numbers), selected=call == "select")
        last |= dict.fromkeys(numbers, now)
        now += len(numbers)
        if call == "select":
            recent.extend(numbers)
    counts = Counter(key for key in recent if key is not None)
    assert policy._count.tolist() == [counts[key] for key in range(8)]
    assert {key: int(policy._last[key]) for key in range(8) if policy._last[key] >= 0} == last


def test_of_keys_read_as_often_the_one_read_longest_ago_goes_first() -> None:
    policy = TwoFactor(4)
    for key in (2, 0, 3, 1):
        policy.touch(np.full(1_000, key), selected=False)
    assert policy.victims(np.arange(4), 3).tolist() == [2, 0, 3]


def test_of_keys_read_at_the_same_time_the_one_selected_least_goes_first() -> None:
    policy = TwoFactor(3)
    policy.touch(keys(0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2))
    policy.touch(np.arange(3), selected=False)
    assert policy.victims(np.arange(3), 3).tolist() == [1, 0, 2]


def test_among_equals_the_tail_goes_first() -> None:
    policy = TwoFactor(40)
    policy.touch(np.arange(10, 30))
    assert policy.victims(np.arange(10, 30), 5).tolist() == [29, 28, 27, 26, 25]


def test_a_key_that_was_forgotten_or_never_read_goes_before_any_other() -> None:
    policy = TwoFactor(3)
    policy.touch(keys(0, 1))
    policy.forget(keys(0))
    assert policy.victims(np.arange(3), 2).tolist() == [2, 0]


def test_frequency_leaves_with_the_window() -> None:
    policy = TwoFactor(4, window=100)
    policy.touch(np.repeat(keys(0), 50))
    policy.touch(keys(1))
    policy.touch(np.repeat(keys(2), 10))
    assert policy.victims(keys(0, 1), 1).tolist() == [1]
    policy.touch(np.repeat(keys(3), 88))  # pushes all but one selection of key 0 out
    policy.touch(keys(0, 1), selected=False)
    assert policy.victims(keys(0, 1), 1).tolist() == [1]  # as often, as lately: the tail
    policy.touch(keys(3))
    assert policy.victims(keys(0, 1), 1).tolist() == [0]


def test_more_keys_than_at_first_and_no_loss_of_what_is_known() -> None:
    policy = TwoFactor(2)
    policy.touch(keys(0, 0, 1))
    policy.resize(100)
    policy.resize(50)
    policy.touch(keys(99))
    assert policy.victims(keys(0, 1, 98, 99), 4).tolist()[0] == 98
    assert policy.victims(keys(0, 1), 1).tolist() == [1]


@given(num=st.integers(0, 400), count=st.integers(0, 30), stale=st.integers(0, 399))
@settings(max_examples=60, deadline=None)
def test_victims_are_some_of_the_candidates_and_none_is_named_twice(num: int, count: int, stale: int) -> None:
    policy = TwoFactor(1_000)
    candidates = np.random.default_rng(num).permutation(1_000)[:num]
    policy.touch(candidates)
    victims = policy.victims(candidates, count)
    assert len(victims) == len(set(victims.tolist())) == min(count, num)
    assert set(victims.tolist()) <= set(candidates.tolist())


def test_of_many_candidates_a_sample_is_enough_for_a_victim_from_the_worst_tenth() -> None:
    policy = TwoFactor(10_000)
    for start in range(0, 10_000, 100):
        policy.touch(np.arange(start, start + 100))
    victims = {int(policy.victims(np.arange(10_000), 1)[0]) for _ in range(50)}
    assert max(victims) < 1_000
    assert len(victims) > 10, "the same part of the candidates is looked at every time"
    assert len(policy.victims(np.arange(10_000), 10_000 // SAMPLE)) == 10_000 // SAMPLE


@pytest.mark.parametrize(("comes_again", "victim"), [(True, "old"), (False, "new")])
def test_what_new_keys_are_worth_is_learned(comes_again: bool, victim: str) -> None:
    """Key 0 was selected often, some time ago; the other key once, just now. Who goes depends on the past."""
    policy = TwoFactor(20_000)
    for start in range(1, 12_000, 50):
        policy.touch(np.arange(start, start + 50))
        if comes_again and start > 50:
            policy.touch(np.arange(start - 50, start))
    policy.touch(np.repeat(keys(0), 8))
    for start in range(12_001, 18_000, 50):
        policy.touch(np.arange(start, start + 50))
        if comes_again:
            policy.touch(np.arange(start - 50, start))
    newest = 18_000
    assert policy.victims(keys(0, newest), 1).tolist() == [0 if victim == "old" else newest]
