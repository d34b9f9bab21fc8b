"""Which page gives way: the least wanted of some candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]


class TwoFactor:
    """Scores integer keys by when they were last used; ties give way from the highest key on."""

    def __init__(self, capacity: int) -> None:
        self._last = np.zeros(capacity, dtype=np.int64)
        self._clock = 0

    def resize(self, capacity: int) -> None:
        """Make room for keys below `capacity`."""
        self._last = np.concatenate((self._last, np.zeros(max(0, capacity - len(self._last)), dtype=np.int64)))

    def touch(self, keys: Keys, *, selected: bool = True) -> None:
        """These keys were used."""
        self._clock += 1
        self._last[keys] = self._clock

    def forget(self, keys: Keys) -> None:
        """These keys mean something else from now on."""
        self._last[keys] = 0

    def victims(self, candidates: Keys, count: int) -> Keys:
        """`count` of the candidates, the least wanted first."""
        order = np.lexsort((-candidates, self._last[candidates]))
        chosen: Keys = candidates[order[:count]]
        return chosen
