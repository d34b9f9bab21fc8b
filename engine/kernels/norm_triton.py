"""Root-mean-square normalisation in Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.triton_jit import FUSED, constexpr, jit, narrowed, power_of_two, tensor, tl


def rms_norm_triton(
    x: Tensor,
    weight: Tensor,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """`rms_norm_torch` in Triton."""
    n, d = x.shape
    x = x.contiguous()
    out = torch.empty_like(x, dtype=dtype)
    total = x if residual is None else residual
    if n:
        adds = residual is not None
        _rms_norm[(n,)](x, weight, total, out, eps, adds=adds, dim=d, block=power_of_two(d), **FUSED)
    return out


@jit
def _rms_norm(
    x: tensor,
    weight: tensor,
    total: tensor,
    out: tensor,
    eps: tensor,
    adds: constexpr,
    dim: constexpr,
    block: constexpr,
) -> None:
    """One row."""
    channel = tl.arange(0, block)
    at = tl.program_id(0).to(tl.int64) * dim + channel
    row = tl.load(x + at, mask=channel < dim, other=0.0)
    if adds:
        row += tl.load(total + at, mask=channel < dim, other=0.0)
        tl.store(total + at, row, mask=channel < dim)
    scale = tl.rsqrt(tl.sum(row * row, 0) / dim + eps)
    row = row * scale * tl.load(weight + channel, mask=channel < dim, other=0.0)
    tl.store(out + at, narrowed(row, out.dtype.element_ty), mask=channel < dim)
