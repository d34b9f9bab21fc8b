"""Compares the buddy allocator with first fit, on what conversations of three models ask of a pool of file extents.

    python tests/bench/bench_buddy.py

Two traces are recorded first. `pages` has an extent for every page, as conversations grow by some pages a turn and are
forgotten in any order, in a pool that is kept nearly full. `runs` is what the page store makes of that: extents that
hold many pages of one size, logged from the allocator under the store's map, which asks for half when it is refused.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Protocol
from unittest import mock

from octavo.storage.buddy import BuddyAllocator, BuddyFullError
from octavo.storage.pagestore import extents
from octavo.storage.pagestore.records import Place, Shape

POOLS = (65_536, 1_048_576)  # units of 4 KiB: one segment, and sixteen in one
_FULL = 0.95  # share of the pool that pages take before a conversation is forgotten
_TURNS = 8_000
# Layers, and bytes of one layer of a page in bf16 (KV heads * head size * 32 tokens * K and V * 2 bytes).
_MODELS = [(30, 3 * 64 * 128), (24, 2 * 64 * 128), (32, 8 * 128 * 128)]  # SmolLM2 135M, Qwen2.5 0.5B, Llama 3.1 8B

Call = tuple[int, int]  # (extent, units), units 0 to give it back


class Allocator(Protocol):
    num_free: int
    largest_free: int

    def allocate(self, units: int) -> int: ...
    def free(self, start: int) -> int: ...


class FirstFit:
    """The hole at the lowest address that is large enough; holes in order of their start, neighbours merged."""

    def __init__(self, num_units: int) -> None:
        self._holes = [(0, num_units)]
        self._units_at: dict[int, int] = {}

    @property
    def num_free(self) -> int:
        return sum(units for _, units in self._holes)

    @property
    def largest_free(self) -> int:
        return max((units for _, units in self._holes), default=0)

    def allocate(self, units: int) -> int:
        for index, (start, free) in enumerate(self._holes):
            if free >= units:
                self._holes[index : index + 1] = [(start + units, free - units)] if free > units else []
                self._units_at[start] = units
                return start
        raise BuddyFullError

    def free(self, start: int) -> int:
        units = self._units_at.pop(start)
        index = bisect_left(self._holes, (start, 0))
        end = start + units
        if index < len(self._holes) and self._holes[index][0] == end:
            end += self._holes.pop(index)[1]
        if index and sum(self._holes[index - 1]) == start:
            start = self._holes.pop(index - 1)[0]
        insort(self._holes, (start, end - start))
        return units


def conversations(num_units: int) -> Iterator[tuple[int, int, int]]:
    """(conversation, its model, pages of a turn), or 0 pages where the conversation is forgotten."""
    random = Random(0)
    page_units = [Shape(*model, 32, "{}").page_units for model in _MODELS]
    taken: dict[int, list[int]] = {}  # conversation -> its model, its pages
    used = 0
    for turn in range(_TURNS):
        if not taken or random.random() < 0.2:
            conversation, model = turn, random.choices(range(3), (4, 4, 1))[0]
        else:
            conversation = random.choice(list(taken))
            model = taken[conversation][0]
        pages = min(1 + int(random.lognormvariate(1.0, 1.0)), 40)
        while used + pages * page_units[model] > _FULL * num_units:
            forgotten = random.choice(list(taken))
            its_model, its_pages = taken.pop(forgotten)
            used -= its_pages * page_units[its_model]
            yield forgotten, its_model, 0
        taken.setdefault(conversation, [model, 0])[1] += pages
        used += pages * page_units[model]
        yield conversation, model, pages


def record_pages(num_units: int) -> list[Call]:
    """One extent for each page."""
    calls: list[Call] = []
    extents_of: dict[int, list[int]] = {}
    for conversation, model, pages in conversations(num_units):
        if not pages:
            calls += [(extent, 0) for extent in extents_of.pop(conversation)]
        for _ in range(pages):
            extents_of.setdefault(conversation, []).append(len(calls))
            calls.append((len(calls), Shape(*_MODELS[model], 32, "{}").page_units))
    return calls


def record_runs(num_units: int) -> tuple[list[Call], float]:
    """The extents that the page store's map asks for and gives back for the same conversations.

    Also the share of the pages that found no place in them.
    """
    calls: list[Call] = []
    numbers, extent_at = count(), dict[int, int]()

    class Recorded(BuddyAllocator):
        def allocate(self, units: int) -> int:
            extent = next(numbers)
            calls.append((extent, units))
            start = super().allocate(units)
            extent_at[start] = extent
            return start

        def free(self, start: int) -> int:
            calls.append((extent_at.pop(start), 0))
            return super().free(start)

    places_of: dict[int, list[Place]] = {}
    asked = placed = 0
    with mock.patch.object(extents, "BuddyAllocator", Recorded):
        pool = extents.ExtentMap()
        pool.add_segment(0, num_units)
        for conversation, model, pages in conversations(num_units):
            if not pages:
                for place in places_of.pop(conversation, []):
                    pool.release(place)
            places = pool.take(model, pages)
            while len(places) < pages and pool.add_run(model, Shape(*_MODELS[model], 32, "{}").page_units):
                places += pool.take(model, pages - len(places))
            places_of.setdefault(conversation, []).extend(places)
            asked, placed = asked + pages, placed + len(places)
    return calls, 1 - placed / asked


def replay(calls: list[Call], pool: Allocator) -> str:
    """Times of the calls, refused extents for which enough units were free, and the mean fragmentation."""
    starts: dict[int, int] = {}
    spent: list[float] = []
    refused = asked = 0
    fragmentation: list[float] = []
    for extent, units in calls:
        before = time.perf_counter()
        if units:
            asked += 1
            try:
                starts[extent] = pool.allocate(units)
            except BuddyFullError:
                refused += pool.num_free >= units
                continue
        elif extent in starts:
            pool.free(starts.pop(extent))
        spent.append(time.perf_counter() - before)
        if len(spent) % 50 == 0 and pool.num_free:
            fragmentation.append(1 - pool.largest_free / pool.num_free)
    spent.sort()
    return (
        f"{asked:>9,} {refused / asked:>8.2%} {sum(fragmentation) / len(fragmentation):>14.2f} "
        f"{sum(spent) / len(spent) * 1e6:>8.1f} {spent[len(spent) * 99 // 100] * 1e6:>8.1f}"
    )


def main() -> None:
    print(f"{'units':>9} {'trace':<6} {'allocator':<10} {'extents':>9}  refused  fragmentation  us/call   p99 us")
    for num_units in POOLS:
        runs, without_place = record_runs(num_units)
        for name, calls in {"pages": record_pages(num_units), "runs": runs}.items():
            for title, pool in {"buddy": BuddyAllocator(num_units), "first fit": FirstFit(num_units)}.items():
                print(f"{num_units:>9,} {name:<6} {title:<10} {replay(calls, pool)}")
        print(
            f"{num_units:>9,} {without_place:.2%} of the pages found no place in runs, {_FULL:.0%} of the pool's size"
        )


if __name__ == "__main__":
    main()
