"""Memory that disks read to and write from without a copy in between."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from octavo.engine.huge_pages import huge_zeros


def page_memory(*shape: int, pinned: bool = False) -> Tensor:
    """uint8 `shape` of RAM from the start of a memory page on; `pinned` where a GPU copies from it."""
    if pinned:
        return torch.empty(*shape, dtype=torch.uint8, pin_memory=True)  # begins with a memory page by itself
    return huge_zeros(math.prod(shape)).view(*shape)
