"""Decoding pages for a prefill chunk, whose many queries share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import FLOATS, describe, require, require_angles, require_pages, require_shape
from octavo.engine.kernels.quantize import hadamard, read_keys, read_values
from octavo.engine.kv.codec import PageLayout
from octavo.engine.model.rope import rotate

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def gather_pages_torch(
    slab: Tensor, layout: PageLayout, slots: Tensor, starts: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """K and V of the pages slab[slots], decoded, side by side: `dtype` [kv_heads, pages * page_size, d] each.

    Keys carry the rotation of their offset in the page and are rotated further by `starts`, the position of their
    page's first token; `cos` and `sin` are float32 [positions, d/2]. `slots` and `starts` are int32 [pages].
    """
    pages = slab[slots.long()]
    keys, values = read_keys(pages, layout), read_values(pages, layout)
    if layout.codec.value_bits == 4:
        values = hadamard(values, layout.hadamard_size)
    keys = rotate(keys, *(table[starts.long()][:, None, None] for table in (cos, sin)))
    k, v = (x.to(dtype).transpose(0, 1).flatten(1, 2) for x in (keys, values))
    return k, v


def gather_pages_native(
    ops: Ops,
    slab: Tensor,
    layout: PageLayout,
    slots: Tensor,
    starts: Tensor,
    cos: Tensor,
    sin: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """`gather_pages_torch` in C, on the CPU, to the bit. ValueError for a slot or a start out of its range."""
    op = "gather_pages"
    if dtype not in FLOATS:
        raise ValueError(f"{op} gives bfloat16 or float32, not {dtype}")
    require_pages(op, slab, layout)
    require(op, torch.int32, slots, starts)
    require_angles(op, cos, sin, layout.head_dim)
    count = slots.shape[0]
    require_shape(op, "slots", slots, count)
    require_shape(op, "starts", starts, count)
    shape = layout.num_kv_heads, count * layout.page_size, layout.head_dim
    keys, values = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
    ops.gather_pages(
        describe(layout),
        layout.hadamard_size,
        slab.data_ptr(),
        slab.shape[0],
        slots.data_ptr(),
        starts.data_ptr(),
        count,
        cos.data_ptr(),
        sin.data_ptr(),
        cos.shape[0],
        dtype is torch.bfloat16,
        keys.data_ptr(),
        values.data_ptr(),
    )
    return keys, values
