"""Encoding complete pages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from octavo.engine.kernels.quantize import hadamard, pack, quantize
from octavo.engine.kv.codec import PageLayout


def encode_pages_torch(kv: Tensor, layout: PageLayout) -> Tensor:
    """The bytes of `kv` bfloat16 or float32 [n, 2, kv_heads, page_size, d] (K, V): uint8 [n, slot_bytes]."""
    regions: list[tuple[int, Tensor]] = []
    for number, part in enumerate((layout.keys, layout.values)):
        x = kv[:, number]
        if layout.codec.is_lossless:
            regions.append((part.codes, x.to(torch.float32 if part.bits == 32 else torch.bfloat16)))
            continue
        x = x.float()
        codes, scales, zeros = quantize(hadamard(x, layout.hadamard_size) if part.bits == 4 else x, part.bits)
        codes = codes.transpose(-1, -2) if number == 0 else codes
        stride = layout.token_stride if number == 0 else layout.channel_stride
        regions.append((part.codes, pack(pad(codes, (0, stride - codes.shape[-1])), part.bits)))
        beyond = 0, layout.token_stride - layout.page_size
        regions.append((part.scales, pad(scales, beyond)))
        if part.bits == 4:
            regions.append((part.zeros, pad(zeros, beyond)))
    out = torch.zeros(len(kv), layout.slot_bytes, dtype=torch.uint8, device=kv.device)
    for start, region in regions:
        data = region.contiguous().view(torch.uint8).flatten(1)
        out[:, start : start + data.shape[1]] = data
    return out
