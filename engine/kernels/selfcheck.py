"""A tiny run of each native operation against its reference, before it is trusted with a model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from octavo.engine.kernels.activation import silu_mul_torch
from octavo.engine.kernels.decode_attention import decode_attention_torch
from octavo.engine.kernels.kv_write import write_kv_torch
from octavo.engine.kernels.linear import linear_torch
from octavo.engine.kernels.norm import rms_norm_torch
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

_TOLERANCE = 1e-4


def failure(op: str, native: Callable[..., Any]) -> str | None:
    """What is wrong with the native operation called `op`, or None if it agrees with its reference."""
    try:
        return _CHECKS[op](native, torch.Generator().manual_seed(0))
    except (RuntimeError, ValueError, MemoryError) as error:
        return f"it failed: {error}"


def _difference(got: Tensor, expected: Tensor) -> str | None:
    error = float((got.float() - expected.float()).abs().max() / expected.float().abs().max())
    return None if error <= _TOLERANCE else f"it differs from its reference by {error:.1e} of the maximum"


def _linear(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    # Bytes below 60 make every float16 scale among them finite and small.
    weights = [
        BlockMatrix(
            format,
            (3, 256),
            torch.randint(60, (3, format.row_bytes(256)), dtype=torch.uint8, generator=generator),
        )
        for format in Format  # noqa: A001
    ]
    x = torch.randn(5, 256, generator=generator)
    for weight in weights:
        (got,) = native(x, [weight], [None])
        problem = _difference(got, linear_torch(x, [weight], [None])[0])
        if problem:
            return f"for {weight.format_name} {problem}"
    return None


def _rms_norm(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    x, weight = torch.randn(2, 40, generator=generator), torch.randn(40, generator=generator)
    return _difference(native(x, weight, 1e-5), rms_norm_torch(x, weight, 1e-5))


def _silu_mul(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    gate, up = torch.randn(2, 40, generator=generator), torch.randn(2, 40, generator=generator)
    return _difference(native(gate, up), silu_mul_torch(gate, up))


def _paged(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A slab of 3 pages of 4 tokens, 2 KV heads and dimension 8, and tables of 12 angles."""
    slab = torch.randn(3, 2, 2, 4, 8, generator=generator)
    angles = torch.rand(12, 4, generator=generator)
    return slab, angles.cos(), angles.sin()


def _write_kv(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    slab, cos, sin = _paged(generator)
    expected = slab.clone()
    slots, offsets = torch.tensor([2, 0], dtype=torch.int32), torch.tensor([3, 1], dtype=torch.int32)
    k, v = torch.randn(2, 2, 8, generator=generator), torch.randn(2, 2, 8, generator=generator)
    for write, target in ((native, slab), (write_kv_torch, expected)):
        write(target, slots, offsets, k, v, cos[:4], sin[:4])
    return _difference(slab, expected)


def _decode_attention(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    slab, cos, sin = _paged(generator)
    slots, distances = torch.tensor([[2, 0]]).int(), torch.tensor([[6, 2]]).int()
    pages = slots, distances, torch.tensor([2]).int(), torch.tensor([3]).int()
    q = torch.randn(1, 4, 8, generator=generator)
    expected = decode_attention_torch(q, slab, *pages, cos, sin, 0.4)
    return _difference(native(q, slab, *pages, cos, sin, 0.4), expected)


_CHECKS: dict[str, Callable[[Callable[..., Any], torch.Generator], str | None]] = {
    "linear": _linear,
    "rms_norm": _rms_norm,
    "silu_mul": _silu_mul,
    "write_kv": _write_kv,
    "decode_attention": _decode_attention,
}
