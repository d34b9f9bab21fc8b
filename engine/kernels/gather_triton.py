"""Decoding pages for a prefill chunk in Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.pages_triton import hadamard, load_keys, load_values
from octavo.engine.kernels.triton_jit import EXACT, constexpr, jit, narrowed, power_of_two, tensor, tl
from octavo.engine.kv.codec import PageLayout


def gather_pages_triton(
    slab: Tensor, layout: PageLayout, slots: Tensor, starts: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`gather_pages_torch` in Triton, to the bit. Slots and starts are not checked."""
    count = len(slots)
    shape = layout.num_kv_heads, count * layout.page_size, layout.head_dim
    keys, values = (torch.empty(shape, dtype=dtype, device=slab.device) for _ in range(2))
    if count:
        _gather[(count, layout.num_kv_heads)](
            slab, slots, starts, cos, sin, keys, values,
            layout=layout, tokens=power_of_two(layout.page_size), half=power_of_two(layout.head_dim // 2), **EXACT,
        )  # fmt: skip
    return keys, values


@jit
def _gather(
    slab: tensor,
    slots: tensor,
    starts: tensor,
    cos: tensor,
    sin: tensor,
    keys: tensor,
    values: tensor,
    layout: constexpr,
    tokens: constexpr,
    half: constexpr,
) -> None:
    """One head of one page."""
    size: constexpr = layout.page_size
    dim: constexpr = layout.head_dim
    number, head = tl.program_id(0), tl.program_id(1)
    page = slab + tl.load(slots + number).to(tl.int64) * layout.slot_bytes
    token, pair, channel = tl.arange(0, tokens)[:, None], tl.arange(0, half)[None, :], tl.arange(0, 2 * half)[None, :]
    there = pair < dim // 2
    first = load_keys(page, head, tl.where(there, pair, dim), token, layout)
    second = load_keys(page, head, tl.where(there, pair + dim // 2, dim), token, layout)
    angles = tl.load(starts + number).to(tl.int64) * (dim // 2) + pair
    c, s = tl.load(cos + angles, mask=there, other=0.0), tl.load(sin + angles, mask=there, other=0.0)
    row = ((head * tl.num_programs(0) + number) * size + token).to(tl.int64) * dim
    kind = keys.dtype.element_ty
    tl.store(keys + row + pair, narrowed(first * c - second * s, kind), mask=(token < size) & there)
    tl.store(keys + row + dim // 2 + pair, narrowed(second * c + first * s, kind), mask=(token < size) & there)
    v = load_values(page, head, token, channel, layout)
    if layout.codec.value_bits == 4:
        v = hadamard(v, tokens, 2 * half, layout.hadamard_size)
    tl.store(values + row + channel, narrowed(v, kind), mask=(token < size) & (channel < dim))
