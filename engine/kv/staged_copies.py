"""Copies from RAM to a GPU on a stream of their own, through pinned buffers, so that the processor need not wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BUFFER_BYTES = 2 << 20  # copies of 0.5 to 2 MB are several times as fast as small ones
_NUM_BUFFERS = 8


class StagedCopies:
    """Writes rows of `slab` uint8 [slots, slot_bytes], which is on a GPU.

    A ring of pinned buffers, each with an event. A copy waits for what has been launched before, because that may still
    read the slots that are written to; what is launched afterwards waits for the copy; and a buffer is filled again
    only after its event. `cuda` is torch.cuda, or stands for it in tests.
    """

    def __init__(self, slab: Tensor, cuda: Any = torch.cuda) -> None:
        self._slab, self._cuda = slab, cuda
        self._stream = cuda.Stream()
        size = slab.shape[1]
        rows, pinned = max(1, _BUFFER_BYTES // size), slab.is_cuda
        self._rows = torch.empty(_NUM_BUFFERS, rows, size, dtype=torch.uint8, pin_memory=pinned)
        self._slots = torch.empty(_NUM_BUFFERS, rows, dtype=torch.int64, pin_memory=pinned)
        self._copied = [cuda.Event() for _ in range(_NUM_BUFFERS)]
        self._next = 0

    def write(self, slots: NDArray[np.int64], encoded: Tensor) -> None:
        """`encoded` uint8 [len(slots), slot_bytes] in RAM, which the caller may change at once."""
        rows = self._rows.shape[1]
        for first in range(0, len(slots), rows):
            part = slice(first, first + rows)
            self._copy(torch.from_numpy(slots[part]), encoded[part])

    def _copy(self, slots: Tensor, encoded: Tensor) -> None:
        number, self._next = self._next, (self._next + 1) % _NUM_BUFFERS
        copied, count = self._copied[number], len(slots)
        copied.synchronize()
        rows, index = self._rows[number, :count], self._slots[number, :count]
        rows.copy_(encoded)
        index.copy_(slots)
        current = self._cuda.current_stream()
        self._stream.wait_stream(current)
        with self._cuda.stream(self._stream):
            device = self._slab.device
            there = index.to(device, non_blocking=True)
            self._slab.index_copy_(0, there, rows.to(device, non_blocking=True))
            copied.record(self._stream)
        current.wait_event(copied)
