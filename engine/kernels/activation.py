"""The gated activation of a SwiGLU feed-forward block."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import FLOATS, require, require_shape

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def silu_mul_torch(gate: Tensor, up: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """silu(gate) * up, elementwise in float32 (Shazeer, 2020), of float32 or bfloat16 inputs of one shape.

    The result has `dtype`, or the inputs' own.
    """
    gate32 = gate.float()
    return (gate32 * torch.sigmoid(gate32) * up.float()).to(dtype or gate.dtype)


def silu_mul_native(ops: "Ops", gate: Tensor, up: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`silu_mul_torch` in C, for tensors on the CPU; float32 and bfloat16 only."""
    dtype = dtype or gate.dtype
    if gate.dtype not in FLOATS or dtype not in FLOATS:
        raise ValueError(f"silu_mul takes and gives float32 or bfloat16, not {gate.dtype} and {dtype}")
    require("silu_mul", gate.dtype, gate, up)
    require_shape("silu_mul", "up", up, *gate.shape)
    out = torch.empty_like(gate, dtype=dtype)
    bf16 = torch.bfloat16
    ops.silu_mul(gate.data_ptr(), up.data_ptr(), out.data_ptr(), gate.numel(), gate.dtype is bf16, dtype is bf16)
    return out
