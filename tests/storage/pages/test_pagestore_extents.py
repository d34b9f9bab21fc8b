"""The map of places against a plain one: no place is given twice, and nothing is lost."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from octavo.storage.pagestore.extents import ExtentMap
from octavo.storage.pagestore.records import Place

SIZES = {1: 3, 2: 5, 3: 16}  # units of a page, of each space


class Extents(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.extents = ExtentMap()
        self.segments: dict[int, int] = {}
        self.pages: dict[Place, int] = {}

    @rule(num_units=st.integers(1, 300))
    def add_segment(self, num_units: int) -> None:
        number = len(self.segments) + 1
        if number <= 3:
            self.segments[number] = num_units
            self.extents.add_segment(number, num_units)

    @rule(space=st.sampled_from(list(SIZES)), count=st.integers(1, 12))
    def take(self, space: int, count: int) -> None:
        taken = self.extents.take(space, count)
        if len(taken) < count and self.extents.add_run(space, SIZES[space]):
            taken += self.extents.take(space, count - len(taken))
        assert len(taken) <= count
        for place in taken:
            assert place not in self.pages
            self.pages[place] = space

    @precondition(lambda self: self.pages)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.pages, key=lambda place: (place.segment, place.start))))
        del self.pages[place]
        self.extents.release(place)

    @rule()
    def restart(self) -> None:
        self.extents = ExtentMap()
        for number, num_units in self.segments.items():
            self.extents.add_segment(number, num_units)
        for place, space in self.pages.items():
            assert self.extents.restore(place, space, SIZES[space])
            assert not self.extents.restore(place, space, SIZES[space]), "a place is restored once"

    @invariant()
    def every_unit_is_a_pages_or_free(self) -> None:
        for number, num_units in self.segments.items():
            taken = [
                unit
                for place, space in self.pages.items()
                if place.segment == number
                for unit in range(place.start, place.start + SIZES[space])
            ]
            free = [unit for start, count in self.extents.free_ranges(number) for unit in range(start, start + count)]
            assert sorted(taken + free) == list(range(num_units))
            assert self.extents.used_units(number) == len(taken)


TestExtents = Extents.TestCase
TestExtents.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
