"""Memory that disks read to and write from without a copy in between."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_PAGE = 4096


def page_memory(*shape: int, pinned: bool = False) -> Tensor:
    """uint8 `shape` of RAM, uninitialised, from the start of a memory page on; `pinned` where a GPU copies from it."""
    if pinned:
        return torch.empty(*shape, dtype=torch.uint8, pin_memory=True)  # begins with a memory page by itself
    size = math.prod(shape)
    memory = torch.empty(size + _PAGE, dtype=torch.uint8)
    start = -memory.data_ptr() % _PAGE
    return memory[start : start + size].view(*shape)
