"""The buddy allocator against a plain list of units."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from octavo.storage.buddy import BuddyAllocator, BuddyFullError


def largest_free_block(taken: list[bool]) -> int:
    """By the definition: the most units of an aligned power-of-two block, cut off by the pool's end, all free."""
    largest = 0
    for level in range((len(taken) - 1).bit_length() + 1):
        for start in range(0, len(taken), 1 << level):
            block = taken[start : start + (1 << level)]
            if not any(block):
                largest = max(largest, len(block))
    return largest


class BuddyAgainstList(RuleBasedStateMachine):
    """Every unit is an entry of a list; runs are a dict."""

    @initialize(num_units=st.integers(1, 150))
    def open(self, num_units: int) -> None:
        self.pool = BuddyAllocator(num_units)
        self.taken = [False] * num_units
        self.runs: dict[int, int] = {}

    @rule(units=st.integers(1, 160))
    def allocate(self, units: int) -> None:
        if units > largest_free_block(self.taken):
            with pytest.raises(BuddyFullError, match=f"{units} units"):
                self.pool.allocate(units)
            return
        start = self.pool.allocate(units)
        assert start % (1 << (units - 1).bit_length()) == 0
        self._take(start, units)

    @rule(start=st.integers(-2, 151), units=st.integers(-1, 152))
    def reserve(self, start: int, units: int) -> None:
        if units < 1 or start < 0 or start + units > len(self.taken) or any(self.taken[start : start + units]):
            with pytest.raises(ValueError, match=r"[Uu]nits"):
                self.pool.reserve(start, units)
            return
        self.pool.reserve(start, units)
        self._take(start, units)

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        start = data.draw(st.sampled_from(sorted(self.runs)))
        units = self.runs.pop(start)
        assert self.pool.free(start) == units
        self.taken[start : start + units] = [False] * units

    @rule(start=st.integers(-1, 151))
    def free_what_is_no_run(self, start: int) -> None:
        if start not in self.runs:
            with pytest.raises(ValueError, match=f"No run begins at unit {start}"):
                self.pool.free(start)

    @invariant()
    def agrees(self) -> None:
        self.pool.check()
        assert self.pool.num_free == self.taken.count(False)
        assert self.pool.num_allocated == sum(self.runs.values()) == self.taken.count(True)
        assert self.pool.largest_free == largest_free_block(self.taken)
        expected = 1 - self.pool.largest_free / self.pool.num_free if self.pool.num_free else 0.0
        assert math.isclose(self.pool.fragmentation, expected)

    def _take(self, start: int, units: int) -> None:
        assert not any(self.taken[start : start + units]), "a run overlaps another"
        assert start + units <= len(self.taken)
        self.taken[start : start + units] = [True] * units
        self.runs[start] = units


BuddyAgainstList.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestBuddyAgainstList = BuddyAgainstList.TestCase


@given(num_units=st.integers(1, 300), sizes=st.lists(st.integers(1, 60), max_size=40), seed=st.randoms())
@settings(max_examples=60, deadline=None)
def test_what_was_taken_comes_back_as_one_block(num_units: int, sizes: list[int], seed: Random) -> None:
    pool = BuddyAllocator(num_units)
    starts = [pool.allocate(units) for units in sizes if units <= pool.largest_free]
    seed.shuffle(starts)
    for start in starts:
        pool.free(start)
    assert pool.largest_free == pool.num_free == num_units
    assert pool.fragmentation == 0
    pool.check()


@given(num_units=st.integers(1, 300), sizes=st.lists(st.integers(1, 60), max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_pool_rebuilt_from_its_runs_places_the_next_run_alike(num_units: int, sizes: list[int]) -> None:
    pool, rebuilt = BuddyAllocator(num_units), BuddyAllocator(num_units)
    for units in sizes:
        if units <= pool.largest_free:
            rebuilt.reserve(pool.allocate(units), units)
    assert (rebuilt.num_free, rebuilt.largest_free) == (pool.num_free, pool.largest_free)
    if pool.largest_free:
        assert rebuilt.allocate(pool.largest_free) == pool.allocate(pool.largest_free)


def test_a_run_takes_exactly_its_units_and_the_rest_serves_smaller_ones() -> None:
    pool = BuddyAllocator(16)
    assert pool.allocate(5) == 0
    assert pool.num_free == 11
    assert [pool.allocate(1), pool.allocate(2)] == [5, 6]
    assert pool.allocate(8) == 8
    assert pool.num_free == 0
    assert pool.fragmentation == 0
    with pytest.raises(BuddyFullError, match="No room for 1 units"):
        pool.allocate(1)


def test_free_units_that_do_not_meet_are_fragmented() -> None:
    pool = BuddyAllocator(8)
    for _ in range(8):
        pool.allocate(1)
    for start in (0, 2, 4, 6):
        pool.free(start)
    assert (pool.num_free, pool.largest_free, pool.fragmentation) == (4, 1, 0.75)
    pool.free(1)
    assert pool.largest_free == 2
    pool.free(3)
    assert pool.largest_free == 4


def test_a_pool_that_is_no_power_of_two_can_be_taken_whole() -> None:
    pool = BuddyAllocator(100)
    assert pool.largest_free == 100
    assert pool.allocate(100) == 0
    with pytest.raises(ValueError, match="No run begins at unit 64"):
        pool.free(64)
    assert pool.free(0) == 100
    with pytest.raises(ValueError, match="No run begins at unit 0"):
        pool.free(0)


@pytest.mark.parametrize("units", [0, -1])
def test_there_are_no_empty_pools_or_runs(units: int) -> None:
    with pytest.raises(ValueError, match="at least one unit"):
        BuddyAllocator(units)
    with pytest.raises(ValueError, match="at least one unit"):
        BuddyAllocator(8).allocate(units)


def test_a_call_visits_each_level_of_the_tree_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """O(log n), counted: blocks looked at, not seconds."""
    visited = 0
    original = BuddyAllocator._in_block

    def counted(self: BuddyAllocator, block: int, level: int) -> int:
        nonlocal visited
        visited += 1
        return original(self, block, level)

    monkeypatch.setattr(BuddyAllocator, "_in_block", counted)
    for height in (10, 20, 40):
        pool = BuddyAllocator((1 << height) - 7)
        starts = [pool.allocate(3 + number % 50) for number in range(20)]
        before = visited
        pool.free(starts[7])
        pool.allocate(37)
        pool.free(starts[12])
        assert visited - before <= 16 * height
