"""Root-mean-square normalisation, with the residual addition that precedes it fused in."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import FLOATS, require, require_shape

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def rms_norm_torch(
    x: Tensor,
    weight: Tensor,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """RMSNorm of `x` float32 [n, d] with `weight` float32 [d], as `dtype` [n, d] (Zhang and Sennrich, 2019).

    With `residual` float32 [n, d], x is first added to it in place and the sum is what is normalised.
    """
    if residual is not None:
        x = residual.add_(x)
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return (x * scale * weight).to(dtype)


def rms_norm_native(
    ops: "Ops",
    x: Tensor,
    weight: Tensor,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """`rms_norm_torch` in C, for float32 tensors on the CPU and `dtype` float32 or bfloat16."""
    if dtype not in FLOATS:
        raise ValueError(f"rms_norm gives float32 or bfloat16, not {dtype}")
    n, d = x.shape
    require("rms_norm", torch.float32, x, weight)
    require_shape("rms_norm", "a weight", weight, d)
    address = None
    if residual is not None:
        require("rms_norm", torch.float32, residual)
        require_shape("rms_norm", "a residual", residual, n, d)
        address = residual.data_ptr()
    out = torch.empty_like(x, dtype=dtype)
    ops.rms_norm(x.data_ptr(), weight.data_ptr(), address, out.data_ptr(), n, d, eps, dtype is torch.bfloat16)
    return out
