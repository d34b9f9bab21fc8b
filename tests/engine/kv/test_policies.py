"""The yardsticks against plain models of their definitions, and against figures of another implementation."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.engine.kv import policies

TRACES = st.lists(st.integers(0, 6), max_size=40)


def plain_lru(trace: Sequence[int], capacity: int) -> int:
    """A read hits if fewer than `capacity` other keys were read since the last read of its key."""
    hits = 0
    for at, key in enumerate(trace):
        before = [past for past in range(at) if trace[past] == key]
        hits += bool(before) and len(set(trace[before[-1] + 1 : at])) < capacity
    return hits


def plain_lfu(trace: Sequence[int], capacity: int) -> int:
    cached: dict[int, tuple[int, int]] = {}  # key -> (reads, time of the last)
    hits = 0
    for at, key in enumerate(trace):
        hits += key in cached
        if key not in cached and len(cached) == capacity:
            del cached[min(cached, key=lambda each: cached[each])]
        cached[key] = (cached.get(key, (0, 0))[0] + 1, at)
    return hits


def plain_optimum(trace: Sequence[int], capacity: int) -> int:
    """Every choice of victims, tried."""

    @cache
    def best(at: int, cached: frozenset[int]) -> int:
        if at == len(trace):
            return 0
        key = trace[at]
        if key in cached:
            return 1 + best(at + 1, cached)
        if len(cached) < capacity:
            return best(at + 1, cached | {key})
        return max(best(at + 1, cached - {victim} | {key}) for victim in cached)

    return best(0, frozenset())


@given(trace=TRACES, capacity=st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_lru_hits_within_its_stack_distance(trace: list[int], capacity: int) -> None:
    assert policies.lru(trace, capacity) == plain_lru(trace, capacity)


@given(trace=TRACES, capacity=st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_lfu_evicts_the_least_read(trace: list[int], capacity: int) -> None:
    assert policies.lfu(trace, capacity) == plain_lfu(trace, capacity)


@given(trace=st.lists(st.integers(0, 5), max_size=14), capacity=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_the_optimum_is_what_trying_every_victim_finds(trace: list[int], capacity: int) -> None:
    assert policies.optimum(trace, capacity) == plain_optimum(trace, capacity)


@pytest.mark.parametrize("policy", [policies.lru, policies.lfu, policies.s3fifo, policies.w_tinylfu])
@given(trace=TRACES, capacity=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_no_policy_beats_the_optimum_and_enough_room_makes_all_alike(
    policy: Callable[[Sequence[int], int], int], trace: list[int], capacity: int
) -> None:
    assert policy(trace, capacity) <= policies.optimum(trace, capacity)
    assert policy(trace, 100) == len(trace) - len(set(trace))


def test_s3fifo_lets_only_keys_that_were_read_again_into_the_main_queue() -> None:
    # Room for 10: 1 in the small queue, 9 in the main one. Keys 0 to 4 are read three times each and outlast a scan.
    hot = [key for key in range(5) for _ in range(3)]
    scan = list(range(100, 140))
    assert policies.s3fifo(hot + scan + list(range(5)), 10) == 10 + 5
    assert policies.lru(hot + scan + list(range(5)), 10) == 10
    # A key that comes back while its ghost is remembered goes straight to the main queue.
    assert policies.s3fifo([0, *scan[:10], 0, *scan[10:], 0], 10) == 1


def test_w_tinylfu_admits_only_what_is_read_more_than_its_victim() -> None:
    # Room for 10: a window of 1, a main part of 9 that keys read twice fill; a scan passes through the window.
    hot = [key for key in range(9) for _ in range(2)]
    scan = list(range(100, 130))
    assert policies.w_tinylfu(hot + scan + list(range(9)), 10) == 9 + 9
    assert policies.lru(hot + scan + list(range(9)), 10) == 9


def test_on_plain_zipf_all_agree_with_another_implementation() -> None:
    """200,000 reads of 10,000 keys, Zipf(1.0), room for 3,000: hit rates in % of libCacheSim 0.3.5 on the same trace.

    Its W-TinyLFU counts in a sketch and its S3-FIFO fills the main queue first, which moves them by a tenth or two.
    """
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, 10_001)
    popular = random.permutation(10_000)
    trace = popular[random.choice(10_000, size=200_000, p=weights / weights.sum())].tolist()
    rates = {
        policy.__name__: policy(trace, 3_000) / 2_000
        for policy in (policies.lru, policies.lfu, policies.s3fifo, policies.w_tinylfu, policies.optimum)
    }
    assert rates == {
        "lru": pytest.approx(82.19, abs=0.005),
        "lfu": pytest.approx(84.48, abs=0.005),
        "s3fifo": pytest.approx(84.22, abs=0.2),
        "w_tinylfu": pytest.approx(84.88, abs=0.2),
        "optimum": pytest.approx(90.60, abs=0.005),
    }
