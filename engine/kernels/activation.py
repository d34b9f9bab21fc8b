"""The gated activation of a SwiGLU feed-forward block."""

import torch
from torch import Tensor


def silu_mul_torch(gate: Tensor, up: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """silu(gate) * up, elementwise in float32 (Shazeer, 2020), of float32 or bfloat16 inputs of one shape.

    The result has `dtype`, or the inputs' own.
    """
    gate32 = gate.float()
    return (gate32 * torch.sigmoid(gate32) * up.float()).to(dtype or gate.dtype)
