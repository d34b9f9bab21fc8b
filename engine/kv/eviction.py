"""Which pages give way: by two factors, how long ago a page was read and how often, weighed by what the past shows.

A page's age and its frequency in a sliding window each fall into a logarithmic class. Of every pair of classes it is
counted how often pages of that kind were read again, and how many there were that could have been. What a page of the
kind is worth follows from that: whether it can be expected to be read again, and how soon. Fixed weights cannot serve
all: frequency alone keeps a working set that has moved on, age alone lets one long document flush everything else.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]

WINDOW = 100_000  # accesses over which frequency is counted; whatever is older is alike
SAMPLE = 64  # candidates looked at for each victim
_NEVER = -(1 << 62)
_CLASSES_PER_OCTAVE = 2
_EPOCH = 2_048  # accesses between two valuations
_MEMORY = 0.9  # share of the counts that one valuation leaves to the next
_HORIZON = 3_000  # accesses after which a read counts for little, about as long as a candidate would have stayed
_PRIOR = 0.1  # windows of observation that a guess from age and frequency alone is worth


class TwoFactor:
    """Ages and frequencies of the keys 0 .. capacity - 1, and the choice of victims among them.

    Learning what a kind is worth follows Beckmann, Chen and Cidon, "LHD: Improving Cache Hit Rate by Maximizing Hit
    Density" (NSDI 2018), with two differences: the kinds are made of age and frequency, and only reads count, not
    hits. So nothing depends on what a cache holds; one policy serves several tiers, and what it knows of a key
    outlives the key's eviction. Time is counted in accesses.
    """

    def __init__(self, capacity: int, *, window: int = WINDOW) -> None:
        self._window = window
        self._now = 0
        self._last = np.full(capacity, _NEVER, dtype=np.int64)
        self._count = np.zeros(capacity, dtype=np.int64)  # selections within the window
        self._bearer = np.zeros(capacity, dtype=np.int64)  # tells who had the key before `forget` from who has it now
        self._recent = np.full((2, window), -1, dtype=np.int64)  # the window: a ring of keys and their bearers
        self._oldest = 0
        # The class of a count or an age up to the window; the kind is count class times classes, plus age class.
        self._class = np.rint(np.log2(np.arange(1, window + 2)) * _CLASSES_PER_OCTAVE).astype(np.int64)
        self._num_classes = int(self._class[-1]) + 1
        self._returns = np.zeros(self._num_classes**2)
        self._chances = np.zeros(self._num_classes**2)  # accesses at which a key of the kind might have been read
        self._valued_at = 0
        self._value = self._values()
        self._random = Random(0)  # noqa: S311

    def resize(self, capacity: int) -> None:
        """Make room for the keys up to `capacity` - 1. What is known of the others stays."""
        more = max(0, capacity - len(self._last))
        self._last = np.append(self._last, np.full(more, _NEVER, dtype=np.int64))
        self._count = np.append(self._count, np.zeros(more, dtype=np.int64))
        self._bearer = np.append(self._bearer, np.zeros(more, dtype=np.int64))

    def touch(self, keys: Keys, *, selected: bool = True) -> None:
        """These keys were read, at one moment; only with `selected` does it count for their frequency."""
        kinds, known = self._kinds(keys)
        np.add.at(self._returns, kinds[known], 1)
        self._last[keys] = self._now
        self._now += len(keys)
        if selected:
            self._select(keys[-self._window :])

    def forget(self, keys: Keys) -> None:
        """Whoever gets these keys next starts anew."""
        self._last[keys] = _NEVER
        self._count[keys] = 0
        self._bearer[keys] += 1

    def victims(self, candidates: Keys, count: int) -> Keys:
        """The `count` candidates worth the least, the worst first; among equals the higher key, the tail of a chain.

        Of many candidates an evenly spread sample is looked at.
        """
        self._revalue_if_due()
        stride = len(candidates) // (SAMPLE * max(1, count))
        if stride > 1:
            candidates = candidates[self._random.randrange(stride) :: stride]
        kinds, _ = self._kinds(candidates)
        order = np.lexsort((-candidates, self._value[kinds]))
        chosen: Keys = candidates[order[:count]]
        return chosen

    def known(self, keys: Keys) -> tuple[Keys, Keys, NDArray[np.float64]]:
        """Of each key its age in accesses (-1 if it was never read), its selections in the window, and its worth."""
        self._revalue_if_due()
        kinds, _ = self._kinds(keys)
        last = self._last[keys]
        return np.where(last == _NEVER, -1, self._now - last), self._count[keys], self._value[kinds]

    def _kinds(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The kind of each key, and whether it was read within the window."""
        ages = np.minimum(self._now - self._last[keys], self._window)
        return self._class[self._count[keys]] * self._num_classes + self._class[ages], ages < self._window

    def _select(self, keys: Keys) -> None:
        """Count the keys, and no longer those that they push out of the window."""
        places = (self._oldest + np.arange(len(keys))) % self._window
        leaving, bearers = self._recent[:, places]
        leaving = leaving[bearers == self._bearer[leaving]]
        np.subtract.at(self._count, leaving, 1)
        np.add.at(self._count, keys, 1)
        self._recent[0, places], self._recent[1, places] = keys, self._bearer[keys]
        self._oldest = (self._oldest + len(keys)) % self._window

    def _revalue_if_due(self) -> None:
        """Only where values are asked for: as long as nothing has to leave, nobody pays for them."""
        if self._now - self._valued_at >= max(_EPOCH, len(self._last) // 16):
            self._revalue()

    def _revalue(self) -> None:
        """Take stock of how many keys of each kind there are, and value the kinds anew."""
        kinds, known = self._kinds(np.arange(len(self._last)))
        present = np.bincount(kinds[known], minlength=len(self._chances))
        self._chances = _MEMORY * self._chances + present * (self._now - self._valued_at)
        self._value = self._values()
        self._returns *= _MEMORY
        self._valued_at = self._now

    def _rates(self) -> NDArray[np.float64]:
        """Reads per access to be expected of a key of each kind, `[count classes, age classes]`.

        What was counted corrects a guess. For the youngest the guess is their frequency, for every other age what was
        found for the next younger one, and less as it is older: while nothing is known, the oldest give way, as in LRU.
        """
        shape = (self._num_classes, self._num_classes)
        returns, chances = self._returns.reshape(shape), self._chances.reshape(shape)
        prior = _PRIOR * self._window
        middles = np.exp2(np.arange(self._num_classes) / _CLASSES_PER_OCTAVE) - 1
        fading = np.append(1, (middles[:-1] + _HORIZON) / (middles[1:] + _HORIZON))
        rates = np.zeros(shape)
        found = (middles + 0.1) / self._window
        for age_class in range(self._num_classes):
            guess = found * fading[age_class]
            found = (returns[:, age_class] + guess * prior) / (chances[:, age_class] + prior)
            rates[:, age_class] = found
        return rates

    def _values(self) -> NDArray[np.float64]:
        """Of every kind the expected exp(-accesses until it is read / _HORIZON): 1 if at once, 0 if never."""
        rates = self._rates()
        widths = np.bincount(self._class, minlength=self._num_classes)
        ends = rates + 1 / _HORIZON  # a wait ends with a read, or loses its worth, as if at this rate
        survives = np.exp(-ends * widths)
        read_here = rates / ends * (1 - survives)
        values = np.zeros_like(rates)
        later = np.zeros(self._num_classes)
        for age_class in reversed(range(self._num_classes)):
            later = read_here[:, age_class] + survives[:, age_class] * later
            values[:, age_class] = later
        return values.ravel()
