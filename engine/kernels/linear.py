"""Matrix products with quantized weights."""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from octavo.engine.kernels.checks import require, require_shape
from octavo.engine.weights.matrix import BlockMatrix, Weight

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

SCRATCH_BYTES = 32 * 2**20
"""Bound on the dequantized part of a matrix that exists at one time."""

FEW_ROWS = {torch.float32: 24, torch.bfloat16: 10}
"""Up to this many rows of input the blocks are multiplied in place. Measured on a processor with AVX-512 and AMX:
expanding them for torch wins from 24 to 32 rows of float32 on, and from 9 to 16 of bfloat16."""

MOST_MATRICES = 8
"""Matrices in one native call: a constant of the C code."""


def row_tiles(rows: int, row_bytes: int, limit: int) -> Iterator[slice]:
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
        for tile in row_tiles(rows, cols * x.element_size(), SCRATCH_BYTES):
            out[:, tile] = torch.mm(x, weight.dequantize(x.dtype, tile).t())
    return out if bias is None else out.add_(bias)


class _Block(NamedTuple):
    """What the C code needs to know of a matrix and its bias, checked once."""

    bias: Tensor | None
    cols: int
    rows: int
    ggml_type: int
    data: int
    row_bytes: int
    bias_data: int | None


class NativeLinear:
    """`linear_torch` in C, for `BlockMatrix` weights on the CPU; other weights take the plain way.

    Few rows are multiplied with the blocks in place, in float32. For more rows (prefill) a tile of the matrix
    at a time is expanded to the dtype of `x`, into a scratch buffer that is kept, and multiplied by torch.
    """

    def __init__(self, ops: "Ops") -> None:
        self._ops = ops
        self._known: WeakKeyDictionary[BlockMatrix, _Block] = WeakKeyDictionary()
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._scratch_lock = threading.Lock()

    def __call__(self, x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None], /) -> list[Tensor]:
        if x.dtype not in FEW_ROWS:
            raise ValueError(f"linear takes float32 or bfloat16 inputs, not {x.dtype}")
        require("linear", x.dtype, x)
        blocks = [
            self._block(weight, bias, x.shape[1]) if isinstance(weight, BlockMatrix) else None
            for weight, bias in zip(weights, biases, strict=True)
        ]
        native = [block for block in blocks if block is not None]
        if x.shape[0] <= FEW_ROWS[x.dtype] and len(native) == len(blocks) <= MOST_MATRICES:
            return self._few_rows(x.float(), native)
        return [
            _product(x, weight, bias) if block is None else self._many_rows(x, block)
            for weight, bias, block in zip(weights, biases, blocks, strict=True)
        ]

    def _block(self, weight: BlockMatrix, bias: Tensor | None, cols: int) -> _Block:
        block = self._known.get(weight)
        if block is None or block.bias is not bias:
            block = self._known[weight] = _describe(weight, bias)
        if block.cols != cols:
            raise ValueError(f"linear takes {block.cols} inputs for a matrix {list(weight.shape)}, not {cols}")
        return block

    def _few_rows(self, x: Tensor, blocks: list[_Block]) -> list[Tensor]:
        n, cols = x.shape
        outs: list[Tensor] = []
        arguments: list[int | None] = []
        for _, _, rows, ggml_type, data, row_bytes, bias in blocks:
            out = torch.empty(n, rows)
            outs.append(out)
            arguments += (ggml_type, data, row_bytes, rows, bias, out.data_ptr())
        self._ops.linear(x.data_ptr(), n, cols, *arguments)
        return outs

    def _many_rows(self, x: Tensor, block: _Block) -> Tensor:
        bias, cols, rows, ggml_type, data, row_bytes, _ = block
        out = torch.empty(x.shape[0], rows)
        with self._scratch_lock:
            for tile in row_tiles(rows, cols * x.element_size(), SCRATCH_BYTES):
                count = tile.stop - tile.start
                expanded = self._scratch_for(count, cols, x.dtype)
                start = data + tile.start * row_bytes
                bf16 = x.dtype is torch.bfloat16
                self._ops.dequantize(ggml_type, start, row_bytes, count, cols, expanded.data_ptr(), bf16)
                out[:, tile] = torch.mm(x, expanded.t())
        return out if bias is None else out.add_(bias)

    def _scratch_for(self, rows: int, cols: int, dtype: torch.dtype) -> Tensor:
        size = rows * cols * dtype.itemsize
        if self._scratch.numel() < size:
            self._scratch = torch.empty(size, dtype=torch.uint8)
        return self._scratch[:size].view(dtype).view(rows, cols)


def _describe(weight: BlockMatrix, bias: Tensor | None) -> _Block:
    rows, cols = weight.shape
    require("linear", torch.uint8, weight.data)
    address = None
    if bias is not None:
        require("linear", torch.float32, bias)
        require_shape("linear", "a bias", bias, rows)
        address = bias.data_ptr()
    data = weight.data.data_ptr()
    return _Block(bias, cols, rows, weight.format.ggml_type, data, weight.data.shape[1], address)
