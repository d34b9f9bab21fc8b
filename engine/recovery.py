"""What to do when memory that was free a moment ago is not: which errors say so, and what can be given back."""

from __future__ import annotations

import gc

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the device or in RAM."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # torch reports a failed allocation in RAM as a plain RuntimeError.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in str(error)


def free_caches() -> None:
    """Return to the system what torch and Python keep for later."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
