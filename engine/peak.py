"""The most memory on the device at any moment of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from octavo.engine.measure import peak_on_cpu

if TYPE_CHECKING:
    from octavo.engine.engine import Engine

Result = TypeVar("Result")


def device_peak(engine: Engine, step: Callable[[], Result]) -> tuple[Result, int]:
    """What `step` returns, and the most bytes that the device held during it.

    On CUDA that is all that torch had allocated: weights, KV pool and workspace. On a CPU it is the pool and what torch
    allocated on top of it during the step; the weights are a mapped file, and the rows of the RAM tier count apart.
    Recording what a CPU allocates slows the step down.
    """
    results: list[Result] = []

    def run() -> None:
        results.append(step())

    if torch.device(engine.device).type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = engine.cache.nbytes + peak_on_cpu(run)
    return results[0], peak
