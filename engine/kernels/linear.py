"""Matrix products with quantized weights."""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from octavo.engine.kernels.checks import require, require_shape
from octavo.engine.kernels.many_rows import multiply_gated, multiply_many
from octavo.engine.kernels.tiles import TILE_ROWS, TiledMatrix
from octavo.engine.weights.matrix import BlockMatrix, Weight

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

SCRATCH_BYTES = 32 * 2**20
"""Bound on the dequantized part of a matrix that exists at one time."""

FEW_ROWS = {torch.float32: 24, torch.bfloat16: 10}
"""Up to this many rows of input the blocks are multiplied in place. Measured on a processor with AVX-512 and AMX:
expanding them for torch wins from 24 to 32 rows of float32 on, and from 9 to 16 of bfloat16."""

FEW_ROWS_OF_TILES = 24
"""The same for matrices in tiles, whatever the type of the input."""

MOST_MATRICES = 8
"""Matrices in one native call: a constant of the C code."""


def row_tiles(rows: int, row_bytes: int, limit: int) -> Iterator[slice]:
    """Consecutive slices that cover `rows` rows, each of at most `limit` bytes (but at least 16 rows)
    and all but the last of a multiple of 16 rows."""
    step = max(TILE_ROWS, limit // row_bytes // TILE_ROWS * TILE_ROWS)
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
    is_tiled: bool
    data: int
    row_bytes: int
    bias_data: int | None


class NativeLinear:
    """`linear_torch` in C, for `BlockMatrix` and `TiledMatrix` weights on the CPU; others take the plain way.

    Few rows are multiplied with the blocks in place in float32, with tiles as integers of 16 bits. For more rows
    (prefill) a part of the matrix at a time is expanded to the dtype of `x`, into scratch memory that is kept, and
    multiplied by torch; bfloat16 and tiles are multiplied here where the processor does it by blocks.
    """

    def __init__(self, ops: "Ops") -> None:
        self._ops = ops
        self._multiplies_blocks = ops.isa == "amx"
        self._known: WeakKeyDictionary[BlockMatrix | TiledMatrix, _Block] = WeakKeyDictionary()
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._scratch_lock = threading.Lock()

    def __call__(self, x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None], /) -> list[Tensor]:
        if x.dtype not in FEW_ROWS:
            raise ValueError(f"linear takes float32 or bfloat16 inputs, not {x.dtype}")
        require("linear", x.dtype, x)
        blocks = [
            self._block(weight, bias, x.shape[1]) if isinstance(weight, BlockMatrix | TiledMatrix) else None
            for weight, bias in zip(weights, biases, strict=True)
        ]
        native = [block for block in blocks if block is not None]
        are_tiled = all(block.is_tiled for block in native)
        if x.shape[0] <= (FEW_ROWS_OF_TILES if are_tiled else FEW_ROWS[x.dtype]) and (
            len(native) == len(blocks) <= MOST_MATRICES
        ):
            return self._few_rows(x.float(), native)
        if self._by_blocks(x, weights):
            return multiply_many(self._ops, x, cast("Sequence[TiledMatrix]", weights), biases)
        return [
            _product(x, weight, bias) if block is None else self._many_rows(x, weight, block)
            for weight, bias, block in zip(weights, biases, blocks, strict=True)
        ]

    def gated(self, x: Tensor, gate: Weight, up: Weight) -> Tensor | None:
        """silu(x @ gate.T) * (x @ up.T) as bfloat16, where that is one product here; else None."""
        if x.shape[0] <= FEW_ROWS_OF_TILES or gate.shape != up.shape or not self._by_blocks(x, (gate, up)):
            return None
        return multiply_gated(self._ops, x, cast(TiledMatrix, gate), cast(TiledMatrix, up))

    def _by_blocks(self, x: Tensor, weights: Sequence[Weight]) -> bool:
        if not self._multiplies_blocks or x.dtype is not torch.bfloat16 or len(weights) > MOST_MATRICES:
            return False
        return all(isinstance(weight, TiledMatrix) for weight in weights)

    def _block(self, weight: BlockMatrix | TiledMatrix, bias: Tensor | None, cols: int) -> _Block:
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
        for _, _, rows, ggml_type, is_tiled, data, row_bytes, bias in blocks:
            out = torch.empty(n, rows)
            outs.append(out)
            arguments += (ggml_type, is_tiled, data, row_bytes, rows, bias, out.data_ptr())
        self._ops.linear(x.data_ptr(), n, cols, *arguments)
        return outs

    def _many_rows(self, x: Tensor, weight: Weight, block: _Block) -> Tensor:
        rows, bias = block.rows, block.bias
        out = torch.empty(x.shape[0], rows)
        with self._scratch_lock:
            for part in row_tiles(rows, block.cols * x.element_size(), SCRATCH_BYTES):
                if isinstance(weight, TiledMatrix):
                    columns = weight.expand(self._scratch_for(part, block.cols, x.dtype), part)
                else:
                    columns = self._dequantize(block, part, x.dtype)
                out[:, part] = torch.mm(x, columns)
        return out if bias is None else out.add_(bias)

    def _dequantize(self, block: _Block, part: slice, dtype: torch.dtype) -> Tensor:
        count, cols = part.stop - part.start, block.cols
        expanded = self._scratch_for(part, cols, dtype)
        start = block.data + part.start * block.row_bytes
        is_bf16 = dtype is torch.bfloat16
        self._ops.dequantize(block.ggml_type, start, block.row_bytes, count, cols, expanded.data_ptr(), is_bf16)
        return expanded[: count * cols].view(count, cols).t()

    def _scratch_for(self, part: slice, cols: int, dtype: torch.dtype) -> Tensor:
        """Room for these rows, and what is left of the last one's tile."""
        size = (part.stop - part.start + TILE_ROWS) * cols * dtype.itemsize
        if self._scratch.numel() < size:
            self._scratch = torch.empty(size, dtype=torch.uint8)
        return self._scratch[:size].view(dtype)


def matrix_words(weight: Weight, bias: Tensor | None) -> tuple[int, ...] | None:
    """MatrixWords of native/decode_step.h; None for a matrix that the C kernels do not know."""
    if not isinstance(weight, BlockMatrix | TiledMatrix) or weight.device.type != "cpu":
        return None
    block = _describe(weight, bias)
    return block.ggml_type, block.is_tiled, block.data, block.row_bytes, block.rows, block.bias_data or 0


def _describe(weight: BlockMatrix | TiledMatrix, bias: Tensor | None) -> _Block:
    rows, cols = weight.shape
    require("linear", torch.uint8, weight.data)
    address = None
    if bias is not None:
        require("linear", torch.float32, bias)
        require_shape("linear", "a bias", bias, rows)
        address = bias.data_ptr()
    data = weight.data.data_ptr()
    is_tiled = isinstance(weight, TiledMatrix)
    row_bytes = 0 if is_tiled else weight.data.shape[1]
    return _Block(bias, cols, rows, weight.format.ggml_type, is_tiled, data, row_bytes, address)
