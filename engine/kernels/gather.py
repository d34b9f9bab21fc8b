"""Decoding pages for a prefill chunk, whose many queries share them."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.quantize import hadamard, read_part
from octavo.engine.kv.codec import PageLayout


def gather_pages_torch(
    slab: Tensor, layout: PageLayout, slots: Tensor, starts: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """K and V of the pages slab[slots], decoded, side by side: `dtype` [kv_heads, pages * page_size, d] each.

    Keys carry the rotation of their offset in the page and are rotated further by `starts`, the position of their
    page's first token; `cos` and `sin` are float32 [positions, d/2]. `slots` and `starts` are int32 [pages].
    """
    pages = slab[slots.long()]
    keys, values = (read_part(pages, layout, part) for part in (layout.keys, layout.values))
    if layout.codec.key_bits == 4:
        keys = hadamard(keys, layout.hadamard_size)
    if layout.codec.value_bits == 4:
        values = hadamard(values, layout.hadamard_size)
    first, second = keys.chunk(2, dim=-1)
    c, s = (table[starts.long()][:, None, None] for table in (cos, sin))
    keys = torch.cat((first * c - second * s, second * c + first * s), dim=-1)
    return tuple(x.to(dtype).transpose(0, 1).flatten(1, 2) for x in (keys, values))  # type: ignore[return-value]
