"""Extents of a file: runs of equal units, placed by a buddy allocator and found again in O(log n)."""

from __future__ import annotations

from octavo.storage.errors import StorageError


class BuddyFullError(StorageError):
    """No free block is large enough; freeing something, or another pool, may help."""


class BuddyAllocator:
    """Runs of units out of a pool of `num_units`, by the binary buddy system (Knowlton 1965; Knuth, TAOCP 1, 2.5).

    The pool is a binary tree of blocks: a block of 2^k units starts at a multiple of 2^k, and splits into two buddies.
    A run begins where a block begins; what it leaves over of the block is given back at once, so that it takes exactly
    its units. Buddies that are both free are one block again at once. A pool may have any size: a block that the
    pool's end cuts off counts with the units that exist.

    Every call takes O(log n). Only blocks that are not wholly free are remembered, so that an empty pool of any size
    costs nothing, and a full one a few entries for each run.
    """

    def __init__(self, num_units: int) -> None:
        if num_units < 1:
            raise ValueError(f"A pool needs at least one unit, not {num_units}.")
        self.num_units = num_units
        self._height = (num_units - 1).bit_length()
        # Blocks are numbered as in a heap: 1 is the root, the buddies inside block b are 2b and 2b + 1. The value is
        # the largest free block inside. Whatever lies below a block that one run covers is not kept.
        self._largest: dict[int, int] = {}
        self._units_at: dict[int, int] = {}  # of every run, by its start
        self._num_free = num_units

    @property
    def num_free(self) -> int:
        """Units that no run holds."""
        return self._num_free

    @property
    def num_allocated(self) -> int:
        """Units that runs hold."""
        return self.num_units - self._num_free

    @property
    def largest_free(self) -> int:
        """Units of the longest run that `allocate` would grant now."""
        return self._largest.get(1, self.num_units)

    @property
    def fragmentation(self) -> float:
        """Share of the free units outside the largest free block; 0 for a full pool."""
        return 1 - self.largest_free / self._num_free if self._num_free else 0.0

    def allocate(self, units: int) -> int:
        """Take a run of exactly `units` units and return its first.

        Raises BuddyFullError if no block is large enough, which does not mean that too few units are free.
        """
        if units < 1:
            raise ValueError(f"A run has at least one unit, not {units}.")
        if units > self.largest_free:
            raise BuddyFullError(
                f"No room for {units} units in one run: {self._num_free} of {self.num_units} are free, "
                f"{self.largest_free} of them in one block."
            )
        start = self._find(units)
        self._take(start, units)
        return start

    def reserve(self, start: int, units: int) -> None:
        """Take the run of `units` units that begins at `start`, as an index says. ValueError if any unit is taken."""
        if units < 1 or start < 0 or start + units > self.num_units:
            raise ValueError(f"Units {start} to {start + units} do not lie in a pool of {self.num_units}.")
        if not self._is_free(1, self._height, start, start + units):
            raise ValueError(f"Some of the units {start} to {start + units} are taken already.")
        self._take(start, units)

    def free(self, start: int) -> int:
        """Give back the run that begins at `start`; returns its units. ValueError if no run begins there."""
        units = self._units_at.pop(start, None)
        if units is None:
            raise ValueError(f"No run begins at unit {start}: it was given back before, or never taken.")
        self._num_free += units
        for block in self._blocks(start, units):
            del self._largest[block]
        self._refresh(start, units)
        return units

    def check(self) -> None:
        """Raise AssertionError unless runs, counts and every block's largest free block agree. O(n), for tests."""
        taken = [False] * self.num_units
        for start, units in self._units_at.items():
            assert not any(taken[start : start + units]), f"the run at {start} overlaps another"
            taken[start : start + units] = [True] * units
        assert taken.count(False) == self._num_free, "the count of free units is wrong"
        tops = {block for start, units in self._units_at.items() for block in self._blocks(start, units)}
        known: set[int] = set()
        largest = self._check_block(1, self._height, taken, tops, known)
        assert largest == self.largest_free, "the largest free block is wrong"
        assert known == set(self._largest), "blocks are remembered that nothing needs"

    # -- the tree

    def _find(self, units: int) -> int:
        """Start of a block that fits: at every split the tighter side, the left one where both are equal."""
        block = 1
        for level in reversed(range(self._height)):
            of_left, of_right = self._in_block(2 * block, level), self._in_block(2 * block + 1, level)
            if units > of_left and units > of_right:
                return (block << (level + 1)) - (1 << self._height)
            block = 2 * block + (units > of_left or units <= of_right < of_left)
        return block - (1 << self._height)

    def _in_block(self, block: int, level: int) -> int:
        """The largest free block inside a block of 2^level units: all of it inside the pool, if no run is in it."""
        largest = self._largest.get(block)
        if largest is not None:
            return largest
        start = (block << level) - (1 << self._height)
        return max(0, min(1 << level, self.num_units - start))

    def _take(self, start: int, units: int) -> None:
        self._units_at[start] = units
        self._num_free -= units
        for block in self._blocks(start, units):
            self._largest[block] = 0
        self._refresh(start, units)

    def _blocks(self, start: int, units: int) -> list[int]:
        """The fewest blocks that make up a run."""
        blocks = []
        left, right = start + (1 << self._height), start + units + (1 << self._height)
        while left < right:
            if left & 1:
                blocks.append(left)
                left += 1
            if right & 1:
                right -= 1
                blocks.append(right)
            left, right = left >> 1, right >> 1
        return blocks

    def _refresh(self, start: int, units: int) -> None:
        """Merge or split the blocks that a run lies in but does not cover, from the smallest to the root."""
        left, right = start + (1 << self._height), start + units + (1 << self._height)
        for level in range(1, self._height + 1):
            first, last = left >> level, (right - 1) >> level
            cut_left, cut_right = first << level != left, (right >> level) << level != right
            if cut_left:
                self._merge(first, level)
            if cut_right and not (cut_left and first == last):
                self._merge(last, level)

    def _merge(self, block: int, level: int) -> None:
        left, right = 2 * block, 2 * block + 1
        if left in self._largest or right in self._largest:
            self._largest[block] = max(self._in_block(left, level - 1), self._in_block(right, level - 1))
        else:
            self._largest.pop(block, None)

    def _is_free(self, block: int, level: int, start: int, stop: int) -> bool:
        """Whether no run holds a unit of [start, stop) inside this block."""
        first = (block << level) - (1 << self._height)
        if stop <= first or first + (1 << level) <= start:
            return True
        largest = self._largest.get(block)
        if not largest:
            return largest is None
        return self._is_free(2 * block, level - 1, start, stop) and self._is_free(2 * block + 1, level - 1, start, stop)

    def _check_block(self, block: int, level: int, taken: list[bool], tops: set[int], known: set[int]) -> int:
        """The largest free block inside, counted anew; adds the blocks that must be remembered to `known`."""
        first = (block << level) - (1 << self._height)
        units = taken[first : first + (1 << level)]
        if not any(units):
            return len(units)
        known.add(block)
        if block in tops:
            largest = 0
        else:
            halves = (2 * block, 2 * block + 1)
            largest = max(self._check_block(half, level - 1, taken, tops, known) for half in halves)
        assert self._largest.get(block) == largest, f"block {block} is out of date"
        return largest
