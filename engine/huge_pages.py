"""Memory in huge pages, for what is read from end to end all the time: weights, KV pages and their bounds.

With pages of 4 KiB a processor looks up an address for each few rows of numbers, and stops reading ahead at each
page's end.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import torch
from torch import Tensor


def huge_zeros(num_bytes: int) -> Tensor:
    """uint8 `[num_bytes]`, all zero, from the start of a memory page on; in huge pages where the system has them."""
    if not num_bytes or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(num_bytes, dtype=torch.uint8)
    block = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without them
        block.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(block, dtype=torch.uint8)
