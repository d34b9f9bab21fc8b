"""The arithmetic of the KV codecs, plainly: what `encode_pages` and those who read pages are measured by."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from octavo.engine.kv.codec import GROUP, PageLayout, Part

_LARGEST_HALF = 65504.0


def hadamard(x: Tensor, size: int) -> Tensor:
    """Multiply blocks of `size` (a power of two) of the last dimension of `x` float32 with the normalised matrix.

    The matrix (Sylvester's) is its own inverse. Sums run from the nearest to the furthest neighbours.
    """
    shape, step = x.shape, 1
    while step < size:
        first, second = x.reshape(*shape[:-1], shape[-1] // (2 * step), 2, step).unbind(-2)
        x = torch.stack((first + second, first - second), dim=-2).reshape(shape)
        step *= 2
    return x * (1 / math.sqrt(size))


def quantize(x: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes uint8 of `x` float32 [..., m], and the float16 scale and zero [...] of each group of m numbers.

    A code is made for the rounded scale and zero, so that decoding undoes no more than its own rounding.
    """
    lowest, highest, most = x.amin(-1), x.amax(-1), float(2**bits - 1)
    scale = ((highest - lowest) / most).clamp(max=_LARGEST_HALF).half()
    zero = (lowest.clamp(-_LARGEST_HALF, _LARGEST_HALF) + 0.0).half()  # + 0.0: no negative zero
    # A scale of zero: all numbers are the zero's, or so near that they become it.
    divisor = torch.where(scale > 0, scale.float(), 1.0)
    steps = (x - zero.float().unsqueeze(-1)) / divisor.unsqueeze(-1)
    return steps.round().clamp(0.0, most).to(torch.uint8), scale, zero


def pack(codes: Tensor, bits: int) -> Tensor:
    """Rows of codes, a multiple of 32 each, as they lie in a slot."""
    if bits == 8:
        return codes
    low, high = codes.reshape(*codes.shape[:-1], codes.shape[-1] // GROUP, 2, GROUP // 2).unbind(-2)
    return (low | high << 4).flatten(-2)


def unpack(data: Tensor, bits: int) -> Tensor:
    """The inverse of `pack`."""
    if bits == 8:
        return data
    halves = data.reshape(*data.shape[:-1], data.shape[-1] * 2 // GROUP, GROUP // 2)
    return torch.stack((halves & 15, halves >> 4), dim=-2).flatten(-3)


def read_keys(pages: Tensor, layout: PageLayout) -> Tensor:
    """The K of `pages` uint8 [n, slot_bytes]: float32 [n, kv_heads, page_size, d]."""
    part, tokens, dim = layout.keys, layout.page_size, layout.head_dim
    if layout.codec.is_lossless:
        return _read_plain(pages, layout, part)
    row_bytes = layout.token_stride * part.bits // 8
    codes = unpack(_region(pages, layout, part.codes, torch.uint8, dim, row_bytes), part.bits)
    scales, zeros = (
        _region(pages, layout, start, torch.float16, layout.channel_stride)[..., :dim, None].float()
        for start in (part.scales, part.zeros)
    )
    k = (codes[..., :tokens].float() * scales + zeros).transpose(-1, -2)
    if part.bits == 4:
        k[..., 0, :] = _region(pages, layout, part.first_token, torch.bfloat16, layout.channel_stride)[..., :dim]
    return k


def read_values(pages: Tensor, layout: PageLayout) -> Tensor:
    """The V of `pages`, of the same shape. Those of 4 bits are still multiplied with the Hadamard matrix."""
    part, tokens = layout.values, layout.page_size
    if layout.codec.is_lossless:
        return _read_plain(pages, layout, part)
    row_bytes = layout.channel_stride * part.bits // 8
    codes = unpack(_region(pages, layout, part.codes, torch.uint8, tokens, row_bytes), part.bits)
    scales, zeros = (
        _region(pages, layout, start, torch.float16, layout.num_groups, layout.token_stride)[..., :tokens]
        .float()
        .transpose(-1, -2)
        .repeat_interleave(GROUP, dim=-1)
        for start in (part.scales, part.zeros)
    )
    return (codes.float() * scales + zeros)[..., : layout.head_dim]


def _read_plain(pages: Tensor, layout: PageLayout, part: Part) -> Tensor:
    dtype = torch.float32 if part.bits == 32 else torch.bfloat16
    return _region(pages, layout, part.codes, dtype, layout.page_size, layout.head_dim).float()


def _region(pages: Tensor, layout: PageLayout, start: int, dtype: torch.dtype, *shape: int) -> Tensor:
    """The numbers from byte `start` of every page on: [n, kv_heads, *shape]."""
    count = layout.num_kv_heads * math.prod(shape) * dtype.itemsize
    return pages[:, start : start + count].contiguous().view(dtype).view(len(pages), layout.num_kv_heads, *shape)
