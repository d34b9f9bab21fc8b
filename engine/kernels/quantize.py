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
        first, second = x.reshape(*shape[:-1], -1, 2, step).unbind(-2)
        x = torch.stack((first + second, first - second), dim=-2).reshape(shape)
        step *= 2
    return x * (1 / math.sqrt(size))


def quantize(x: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes uint8 [..., tokens, dim] of `x` float32, and float16 scales and zeros [..., groups, tokens].

    A code is made for the rounded scale and zero, so that decoding undoes no more than its own rounding.
    """
    codes, scales, zeros = [], [], []
    for group in torch.split(x, GROUP, dim=-1):
        if bits == 8:
            zero = torch.zeros_like(group[..., :1])
            span, low, high = group.abs().amax(-1, keepdim=True), -127.0, 127.0
        else:
            zero = _half(group.amin(-1, keepdim=True))
            span, low, high = group.amax(-1, keepdim=True) - group.amin(-1, keepdim=True), 0.0, 15.0
        scale = _half(span / high)
        steps = (group - zero) / torch.where(scale > 0, scale, 1.0)
        codes.append(steps.round().clamp(low, high).to(torch.int8).view(torch.uint8))
        scales.append(scale.squeeze(-1).half())
        zeros.append(zero.squeeze(-1).half())
    return torch.cat(codes, -1), torch.stack(scales, -2), torch.stack(zeros, -2)


def dequantize(codes: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    """The float32 numbers of `quantize`'s codes; those of 8 bits have no zeros."""
    dim = codes.shape[-1]
    scale = _per_channel(scales, dim)
    if zeros is None:
        return codes.view(torch.int8).float() * scale
    return codes.float() * scale + _per_channel(zeros, dim)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Rows of codes, a multiple of 32 each, as they lie in a slot."""
    if bits == 8:
        return codes
    low, high = codes.reshape(*codes.shape[:-1], -1, 2, GROUP // 2).unbind(-2)
    return (low | high << 4).flatten(-2)


def unpack(data: Tensor, bits: int) -> Tensor:
    """The inverse of `pack`."""
    if bits == 8:
        return data
    halves = data.reshape(*data.shape[:-1], -1, GROUP // 2)
    return torch.stack((halves & 15, halves >> 4), dim=-2).flatten(-3)


def read_part(pages: Tensor, layout: PageLayout, part: Part) -> Tensor:
    """K or V of `pages` uint8 [n, slot_bytes] as float32 [n, kv_heads, page_size, d], still Hadamard-rotated."""
    n, heads, tokens, dim = len(pages), layout.num_kv_heads, layout.page_size, layout.head_dim
    if layout.codec.is_lossless:
        dtype = torch.float32 if part.bits == 32 else torch.bfloat16
        count = heads * tokens * dim * part.bits // 8
        raw = pages[:, part.codes : part.codes + count].contiguous().view(dtype)
        return raw.view(n, heads, tokens, dim).float()
    by_channel = part.codes == layout.keys.codes
    rows, stride = (dim, layout.token_stride) if by_channel else (tokens, layout.channel_stride)
    count = heads * rows * stride * part.bits // 8
    codes = unpack(pages[:, part.codes : part.codes + count].reshape(n, heads, rows, -1), part.bits)
    codes = (codes.transpose(-1, -2) if by_channel else codes)[..., :tokens, :dim].contiguous()
    scales = _read_scales(pages, layout, part.scales)
    return dequantize(codes, scales, _read_scales(pages, layout, part.zeros) if part.bits == 4 else None)


def _read_scales(pages: Tensor, layout: PageLayout, start: int) -> Tensor:
    shape = layout.num_kv_heads, layout.num_groups, layout.token_stride
    count = shape[0] * shape[1] * shape[2] * 2
    halves = pages[:, start : start + count].contiguous().view(torch.float16)
    return halves.view(len(pages), *shape)[..., : layout.page_size]


def _per_channel(scales: Tensor, dim: int) -> Tensor:
    return scales.float().transpose(-1, -2).repeat_interleave(GROUP, dim=-1)[..., :dim]


def _half(x: Tensor) -> Tensor:
    """Rounded to float16, and float32 again; what is too large becomes the largest."""
    return x.clamp(-_LARGEST_HALF, _LARGEST_HALF).half().float()
