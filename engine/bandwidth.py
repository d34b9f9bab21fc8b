"""How fast this machine reads memory, which is what bounds decoding."""

from __future__ import annotations

import time

import torch

_BYTES = 256 * 2**20
_RUNS = 5


def measure_read_bandwidth(device: str = "cpu") -> float:
    """Bytes a second at which a quarter of a gibibyte is read, with the threads that torch uses: the best of 5."""
    data = torch.ones(_BYTES // 4, dtype=torch.int32, device=device)
    best = 0.0
    for _ in range(_RUNS):
        started = time.perf_counter()
        int(data.max())  # waits for the device
        best = max(best, _BYTES / (time.perf_counter() - started))
    return best
