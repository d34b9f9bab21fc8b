"""Triton's language, as the kernels import it. Only what runs on Triton imports this: the package is optional.

With TRITON_INTERPRET=1 in the environment, before the first import, kernels run in Triton's interpreter, on tensors on
the CPU: slowly, but as they are written. Kernels are launched with FUSED, or where bits count with EXACT: products and
sums are then rounded one by one, as torch rounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    constexpr = Any
    tensor = Any
    tl: Any
    triton: Any
else:
    import triton
    import triton.language as tl
    from triton.language import constexpr, tensor

__all__ = ["EXACT", "FUSED", "constexpr", "is_interpreted", "jit", "narrowed", "power_of_two", "tensor", "tl", "triton"]

EXACT: Mapping[str, Any] = {"enable_fp_fusion": False}
FUSED: Mapping[str, Any] = {"enable_fp_fusion": True}


def jit(function: Callable[..., Any]) -> Any:
    """A kernel, or a function that kernels call."""
    return triton.jit(function)


def power_of_two(count: int, least: int = 1) -> int:
    """The smallest power of two that is not below `count` and `least`, for the sides of a block."""
    return max(1 << (count - 1).bit_length(), least)


def is_interpreted() -> bool:
    """Whether kernels run in the interpreter, on the CPU."""
    return bool(triton.knobs.runtime.interpret)


_IS_INTERPRETED = tl.constexpr(is_interpreted())


@jit
def narrowed(x: tensor, kind: constexpr) -> tensor:
    """`x` float32 as `kind`, float32, float16 or bfloat16, rounded to even."""
    if _IS_INTERPRETED and kind == tl.bfloat16:  # the interpreter only cuts, and makes something of 0
        bits = x.to(tl.int32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        narrow = tl.where(x == x, rounded, 0x7FC0).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        narrow = x.to(kind)
    return narrow
