"""Encoding complete pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from octavo.engine.kernels.checks import FLOATS, MOST_DIM, describe, require, require_shape
from octavo.engine.kernels.quantize import hadamard, pack, quantize
from octavo.engine.kv.codec import GROUP, PageLayout

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def encode_pages_torch(kv: Tensor, layout: PageLayout) -> Tensor:
    """The bytes of `kv` bfloat16 or float32 [n, 2, kv_heads, page_size, d] (K, V): uint8 [n, slot_bytes]."""
    keys, values = layout.keys, layout.values
    if layout.codec.is_lossless:
        dtype = torch.float32 if keys.bits == 32 else torch.bfloat16
        k, v = kv.to(dtype).unbind(1)
        return _assemble(layout, {keys.codes: k, values.codes: v})
    k, v = kv.float().unbind(1)
    return _assemble(layout, _encode_keys(k, layout) | _encode_values(v, layout))


def _encode_keys(k: Tensor, layout: PageLayout) -> dict[int, Tensor]:
    """The regions of K [n, kv_heads, page_size, d], by the byte they start at."""
    part, first = layout.keys, 1 if layout.keys.bits == 4 else 0
    more_channels = 0, layout.channel_stride - layout.head_dim
    codes, scales, zeros = quantize(k[..., first:, :].transpose(-1, -2), part.bits)
    regions = {
        part.codes: pack(pad(codes, (first, layout.token_stride - layout.page_size)), part.bits),
        part.scales: pad(scales, more_channels),
        part.zeros: pad(zeros, more_channels),
    }
    if first:
        regions[part.first_token] = pad(k[..., 0, :].bfloat16(), more_channels)
    return regions


def _encode_values(v: Tensor, layout: PageLayout) -> dict[int, Tensor]:
    """The same of V."""
    part = layout.values
    more_tokens = 0, layout.token_stride - layout.page_size
    v = hadamard(v, layout.hadamard_size) if part.bits == 4 else v
    groups = [quantize(group, part.bits) for group in torch.split(v, GROUP, dim=-1)]
    codes, scales, zeros = zip(*groups, strict=True)
    padded = pad(torch.cat(codes, -1), (0, layout.channel_stride - layout.head_dim))
    return {
        part.codes: pack(padded, part.bits),
        part.scales: pad(torch.stack(scales, -2), more_tokens),
        part.zeros: pad(torch.stack(zeros, -2), more_tokens),
    }


def _assemble(layout: PageLayout, regions: dict[int, Tensor]) -> Tensor:
    """Pages from their regions [n, ...], each at its byte."""
    first = next(iter(regions.values()))
    out = torch.zeros(len(first), layout.slot_bytes, dtype=torch.uint8, device=first.device)
    for start, region in regions.items():
        data = region.contiguous().view(torch.uint8).flatten(1)
        out[:, start : start + data.shape[1]] = data
    return out


def encode_pages_native(ops: Ops, kv: Tensor, layout: PageLayout) -> Tensor:
    """`encode_pages_torch` in C, on the CPU, to the bit."""
    if kv.dtype not in FLOATS:
        raise ValueError(f"encode_pages takes bfloat16 or float32 pages, not {kv.dtype}")
    require("encode_pages", kv.dtype, kv)
    if layout.head_dim > MOST_DIM:
        raise ValueError(f"encode_pages takes head dimensions up to {MOST_DIM}, not {layout.head_dim}")
    n = kv.shape[0]
    require_shape("encode_pages", "pages", kv, n, 2, layout.num_kv_heads, layout.page_size, layout.head_dim)
    out = torch.zeros(n, layout.slot_bytes, dtype=torch.uint8)
    ops.encode_pages(
        describe(layout), layout.hadamard_size, kv.data_ptr(), kv.dtype is torch.bfloat16, n, out.data_ptr()
    )
    return out
