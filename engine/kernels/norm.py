"""Root-mean-square normalisation, with the residual addition that precedes it fused in."""

import torch
from torch import Tensor


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
