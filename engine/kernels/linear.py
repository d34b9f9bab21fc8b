"""Matrix products with quantized weights."""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import FLOATS, require, require_shape
from octavo.engine.weights.matrix import BlockMatrix, Weight

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

SCRATCH_BYTES = 32 * 2**20
"""Bound on the dequantized part of a matrix that exists at one time."""

FEW_ROWS = 12
"""Up to this many rows of input the blocks are multiplied in place: faster than expanding them for torch."""

MOST_MATRICES = 8
"""Matrices in one native call: a constant of the C code."""


def row_tiles(rows: int, row_bytes: int, limit: int = SCRATCH_BYTES) -> Iterator[slice]:
    """Consecutive slices that cover `rows` rows, each of at most `limit` bytes (but at least one row)."""
    step = max(1, limit // row_bytes)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def linear_torch(x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """x @ weight.T + bias for several matrices that share the input `x` [n, in], float32 or bfloat16.

    Returns one float32 [n, out_i] per weight. The product is taken in the dtype of `x`, over one dequantized
    tile of rows at a time, so no whole matrix is ever held; the bias (float32 [out_i]) is added in float32.
    """
    return [_product(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)]


def _product(x: Tensor, weight: Weight, bias: Tensor | None) -> Tensor:
    if hasattr(weight, "matmul"):  # bitsandbytes has kernels of its own
        out: Tensor = weight.matmul(x).float()
    else:
        rows, cols = weight.shape
        out = torch.empty((x.shape[0], rows), dtype=torch.float32, device=x.device)
        for tile in row_tiles(rows, cols * x.element_size()):
            out[:, tile] = torch.mm(x, weight.dequantize(x.dtype, tile).t())
    return out if bias is None else out.add_(bias)


class NativeLinear:
    """`linear_torch` in C, for `BlockMatrix` weights on the CPU; other weights take the plain way.

    Few rows are multiplied with the blocks in place, in float32. For more rows (prefill) a tile of the matrix
    at a time is expanded to the dtype of `x`, into a scratch buffer that is kept, and multiplied by torch.
    """

    def __init__(self, ops: "Ops") -> None:
        self._ops = ops
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._scratch_lock = threading.Lock()

    def __call__(
        self, x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None], /
    ) -> list[Tensor]:
        if x.dtype not in FLOATS:
            raise ValueError(f"linear takes float32 or bfloat16 inputs, not {x.dtype}")
        require("linear", x.dtype, x)
        blocks = [weight for weight in weights if isinstance(weight, BlockMatrix)]
        if x.shape[0] <= FEW_ROWS and len(blocks) == len(weights) == len(biases) <= MOST_MATRICES:
            return self._few_rows(x.float(), blocks, biases)
        return [
            self._many_rows(x, weight, bias) if isinstance(weight, BlockMatrix) else _product(x, weight, bias)
            for weight, bias in zip(weights, biases, strict=True)
        ]

    def _few_rows(
        self, x: Tensor, weights: list[BlockMatrix], biases: Sequence[Tensor | None]
    ) -> list[Tensor]:
        n, cols = x.shape
        outs: list[Tensor] = []
        arguments: list[int | None] = []
        for weight, bias in zip(weights, biases, strict=True):
            rows, row_bytes = _block_rows(weight, cols)
            if bias is not None:
                require("linear", torch.float32, bias)
                require_shape("linear", "a bias", bias, rows)
            out = torch.empty((n, rows))
            outs.append(out)
            address = None if bias is None else bias.data_ptr()
            arguments += (
                weight.format.ggml_type, weight.data.data_ptr(), row_bytes, rows, address, out.data_ptr()
            )  # fmt: skip
        self._ops.linear(x.data_ptr(), n, cols, *arguments)
        return outs

    def _many_rows(self, x: Tensor, weight: BlockMatrix, bias: Tensor | None) -> Tensor:
        n, cols = x.shape
        rows, row_bytes = _block_rows(weight, cols)
        out = torch.empty((n, rows))
        with self._scratch_lock:
            for tile in row_tiles(rows, cols * x.element_size()):
                expanded = self._scratch_for(tile.stop - tile.start, cols, x.dtype)
                self._ops.dequantize(
                    weight.format.ggml_type,
                    weight.data.data_ptr() + tile.start * row_bytes,
                    row_bytes,
                    tile.stop - tile.start,
                    cols,
                    expanded.data_ptr(),
                    x.dtype is torch.bfloat16,
                )
                out[:, tile] = torch.mm(x, expanded.t())
        return out if bias is None else out.add_(bias)

    def _scratch_for(self, rows: int, cols: int, dtype: torch.dtype) -> Tensor:
        size = rows * cols * dtype.itemsize
        if self._scratch.numel() < size:
            self._scratch = torch.empty(size, dtype=torch.uint8)
        return self._scratch[:size].view(dtype).view(rows, cols)


def _block_rows(weight: BlockMatrix, cols: int) -> tuple[int, int]:
    """Rows and bytes per row of a matrix that takes `cols` inputs and lies on the CPU."""
    require("linear", torch.uint8, weight.data)
    rows, expected = weight.shape
    if cols != expected:
        raise ValueError(f"linear takes {expected} inputs for a matrix {list(weight.shape)}, not {cols}")
    return rows, weight.data.shape[1]
