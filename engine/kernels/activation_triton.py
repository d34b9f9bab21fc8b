"""The gated activation of a SwiGLU feed-forward block, in Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.triton_jit import FUSED, constexpr, jit, narrowed, tensor, tl

_BLOCK = 1024


def silu_mul_triton(gate: Tensor, up: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`silu_mul_torch` in Triton."""
    out = torch.empty_like(gate, dtype=dtype or gate.dtype, memory_format=torch.contiguous_format)
    count = gate.numel()
    if count:
        _silu_mul[(-(-count // _BLOCK),)](gate.contiguous(), up.contiguous(), out, count, block=_BLOCK, **FUSED)
    return out


@jit
def _silu_mul(gate: tensor, up: tensor, out: tensor, count: tensor, block: constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    g = tl.load(gate + at, mask=at < count, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=at < count, other=0.0).to(tl.float32)
    tl.store(out + at, narrowed(g * tl.sigmoid(g) * u, out.dtype.element_ty), mask=at < count)
