"""Which parts of the segments are taken: buddy extents, each a run of equal places for the pages of one space.

Pages of one space have one size, which is rarely a power of two. Giving each its own buddy extent would leave the rest
of every block behind it, up to half, as holes that no other page of the space fits into, and neighbours would never
touch. So a buddy extent is a run of many pages, its unused tail goes back, and pages take the places of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from octavo.storage.buddy import BuddyAllocator, BuddyFullError
from octavo.storage.pagestore.records import Place

_FEWEST_SLOTS = 16  # of a run, where the segment has room for so many
_SMALL_REST = 1 / 64  # of the block a run is cut from


@dataclass(slots=True)
class Run:
    """Equal places of one space; bit i of `taken` is set while place i holds a page."""

    segment: int
    start: int
    num_slots: int
    slot_units: int
    space: int
    taken: int = 0

    @property
    def num_free(self) -> int:
        return self.num_slots - self.taken.bit_count()

    @property
    def num_units(self) -> int:
        return self.num_slots * self.slot_units

    def place(self, slot: int) -> Place:
        return Place(self.segment, self.start + slot * self.slot_units, self.start, self.num_slots)

    def slot(self, place: Place) -> int:
        return (place.start - self.start) // self.slot_units

    def free_slots(self) -> Iterator[int]:
        free = ~self.taken & ((1 << self.num_slots) - 1)
        while free:
            lowest = free & -free
            yield lowest.bit_length() - 1
            free ^= lowest


@dataclass(slots=True)
class _Segment:
    num_units: int
    buddy: BuddyAllocator
    runs: dict[int, Run] = field(default_factory=dict)


class ExtentMap:
    """The segments, their runs, and which places are free. Bookkeeping only; not for several threads at once."""

    def __init__(self) -> None:
        self._segments: dict[int, _Segment] = {}
        self._open: dict[int, dict[tuple[int, int], Run]] = {}  # of each space, the runs with a free place

    @property
    def segments(self) -> dict[int, int]:
        """Units of each segment."""
        return {number: segment.num_units for number, segment in self._segments.items()}

    @property
    def num_units(self) -> int:
        return sum(segment.num_units for segment in self._segments.values())

    def add_segment(self, number: int, num_units: int) -> None:
        self._segments[number] = _Segment(num_units, BuddyAllocator(num_units))

    def remove_segment(self, number: int) -> None:
        """Forget a segment, with whatever it holds."""
        for run in self._segments.pop(number).runs.values():
            self._open.get(run.space, {}).pop((number, run.start), None)

    def restore(self, place: Place, space: int, slot_units: int) -> bool:
        """Take the place of a page that was there before; False if it cannot be: no segment, or taken already."""
        segment = self._segments.get(place.segment)
        if segment is None:
            return False
        run = segment.runs.get(place.run_start)
        if run is None:
            try:
                segment.buddy.reserve(place.run_start, place.run_slots * slot_units)
            except ValueError:
                return False
            run = Run(place.segment, place.run_start, place.run_slots, slot_units, space)
            segment.runs[run.start] = run
        slot = run.slot(place)
        fits = (
            0 <= slot < run.num_slots
            and run.place(slot) == place
            and (run.space, run.slot_units) == (space, slot_units)
        )
        if not fits or run.taken >> slot & 1:
            return False
        self._take(run, slot)
        return True

    def take(self, space: int, count: int, *, outside: int | None = None) -> list[Place]:
        """Up to `count` free places in the runs of `space`, neighbours first; none in the segment `outside`."""
        taken: list[Place] = []
        for run in reversed(list(self._open.get(space, {}).values())):
            if run.segment == outside:
                continue
            for slot in run.free_slots():
                if len(taken) == count:
                    return taken
                taken.append(run.place(slot))
                self._take(run, slot)
        return taken

    def add_run(self, space: int, slot_units: int, *, outside: int | None = None) -> bool:
        """Make a run for `space` in the free part of a segment; False if no segment has room for even one page."""
        for number, segment in reversed(list(self._segments.items())):
            num_slots = run_slots(slot_units, segment.num_units) if number != outside else 0
            while num_slots:
                try:
                    start = segment.buddy.allocate(num_slots * slot_units)
                except BuddyFullError:
                    num_slots //= 2
                    continue
                run = segment.runs[start] = Run(number, start, num_slots, slot_units, space)
                self._open.setdefault(space, {})[number, start] = run
                return True
        return False

    def release(self, place: Place) -> None:
        """Give a place back; a run without pages gives back its extent."""
        segment = self._segments[place.segment]
        run = segment.runs[place.run_start]
        slot = run.slot(place)
        if not run.taken >> slot & 1:
            raise ValueError(f"The place {place} is free already.")
        run.taken ^= 1 << slot
        if run.taken:
            self._open.setdefault(run.space, {})[run.segment, run.start] = run
            return
        segment.buddy.free(run.start)
        del segment.runs[run.start]
        self._open.get(run.space, {}).pop((run.segment, run.start), None)

    def used_units(self, number: int) -> int:
        """Units of a segment that hold pages."""
        runs = self._segments[number].runs.values()
        return sum(run.taken.bit_count() * run.slot_units for run in runs)

    def free_ranges(self, number: int) -> Iterator[tuple[int, int]]:
        """(start, units) of each part of a segment that holds no page."""
        segment = self._segments[number]
        free_from = 0
        for run in sorted(segment.runs.values(), key=lambda run: run.start):
            for slot in range(run.num_slots):
                if run.taken >> slot & 1:
                    start = run.place(slot).start
                    if start > free_from:
                        yield free_from, start - free_from
                    free_from = start + run.slot_units
        if free_from < segment.num_units:
            yield free_from, segment.num_units - free_from

    def _take(self, run: Run, slot: int) -> None:
        run.taken |= 1 << slot
        runs = self._open.setdefault(run.space, {})
        if run.num_free:
            runs[run.segment, run.start] = run
        else:
            runs.pop((run.segment, run.start), None)


def run_slots(slot_units: int, segment_units: int) -> int:
    """Pages in a run: of the blocks a segment can hold, the smallest whose rest is small; 0 if no page fits."""
    best, best_rest, block = 0, 1.0, 1
    while block <= segment_units:
        slots = block // slot_units
        rest = 1 - slots * slot_units / block
        if slots and rest < best_rest:
            best, best_rest = slots, rest
        if slots >= _FEWEST_SLOTS and rest <= _SMALL_REST:
            break
        block *= 2
    return best or segment_units // slot_units
