"""Matrix products with quantized weights."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from octavo.engine.weights.matrix import Weight

SCRATCH_BYTES = 32 * 2**20
"""Bound on the dequantized part of a matrix that exists at one time."""


def row_tiles(rows: int, row_bytes: int, limit: int = SCRATCH_BYTES) -> Iterator[slice]:
    """Consecutive slices that cover `rows` rows, each of at most `limit` bytes (but at least one row)."""
    step = max(1, limit // row_bytes)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def linear_torch(x: Tensor, weights: "Sequence[Weight]", biases: Sequence[Tensor | None]) -> list[Tensor]:
    """x @ weight.T + bias for several matrices that share the input `x` [n, in], float32 or bfloat16.

    Returns one float32 [n, out_i] per weight. The product is taken in the dtype of `x`, over one dequantized
    tile of rows at a time, so no whole matrix is ever held; the bias (float32 [out_i]) is added in float32.
    """
    return [_product(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)]


def _product(x: Tensor, weight: "Weight", bias: Tensor | None) -> Tensor:
    if hasattr(weight, "matmul"):  # bitsandbytes has kernels of its own
        out: Tensor = weight.matmul(x).float()
    else:
        rows, cols = weight.shape
        out = torch.empty((x.shape[0], rows), dtype=torch.float32, device=x.device)
        for tile in row_tiles(rows, cols * x.element_size()):
            out[:, tile] = torch.mm(x, weight.dequantize(x.dtype, tile).t())
    return out if bias is None else out.add_(bias)
