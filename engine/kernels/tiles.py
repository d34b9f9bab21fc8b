"""Matrices laid out for the C kernels: 16 rows side by side, multiplied as bytes.

The bytes are those of the file, in another order (see native/tiles.h): what a weight is worth does not change. Of a
vector, each 32 numbers become integers of 16 bits with one scale, in two bytes each. With one byte each, as engines
usually do it, perplexity grew by 0.5 %; the second costs no time where memory is what a product waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.huge_pages import huge_zeros
from octavo.engine.kv.codec import padded
from octavo.engine.weights.matrix import BlockMatrix, FormatMatrix, Weight

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

TILE_ROWS = 16


@dataclass(frozen=True, eq=False)
class TiledMatrix(FormatMatrix):
    """A matrix in tiles, on the CPU. data: uint8 [tiles * tile_bytes]."""

    ops: Ops

    @property
    def tile_bytes(self) -> int:
        return self.nbytes * TILE_ROWS // padded(self.shape[0], TILE_ROWS)

    def expand(self, out: Tensor, rows: slice) -> Tensor:
        """Rows from the beginning of a tile on, as columns: a view [cols, n] of `out`, float32 or bfloat16, which
        is contiguous and has room for n rounded up to whole tiles."""
        count, cols = rows.stop - rows.start, self.shape[1]
        stride = padded(count, TILE_ROWS)
        start = self.data.data_ptr() + rows.start // TILE_ROWS * self.tile_bytes
        is_bf16 = out.dtype is torch.bfloat16
        self.ops.expand_tiles(self.format.ggml_type, start, count, cols, out.data_ptr(), is_bf16)
        return out[: cols * stride].view(cols, stride)[:, :count]

    def dequantize(self, dtype: torch.dtype, rows: slice | None = None) -> Tensor:
        start, stop, _ = (rows or slice(None)).indices(self.shape[0])
        first = start // TILE_ROWS * TILE_ROWS
        out = torch.empty(self.shape[1] * padded(stop - first, TILE_ROWS))
        return self.expand(out, slice(first, stop))[:, start - first :].t().to(dtype).contiguous()

    def gather_rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        rows, cols = self.shape
        ids = ids.to(torch.int64).contiguous()
        out = torch.empty(ids.numel(), cols)
        self.ops.gather_tile_rows(
            self.format.ggml_type, self.data.data_ptr(), rows, cols, ids.data_ptr(), ids.numel(), out.data_ptr()
        )
        return out.to(dtype)


_BLOCK_BYTES = 32 * 2**20
_ALIGNMENT = 64


class Arranger:
    """Puts matrices in tiles, one behind the other in large blocks of memory."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._block = torch.empty(0, dtype=torch.uint8)

    def __call__(self, matrix: Weight, /) -> Weight:
        """`matrix` in tiles, or itself where its format has none."""
        if not isinstance(matrix, BlockMatrix):
            return matrix
        rows, cols = matrix.shape
        kind = matrix.format.ggml_type
        size = self._ops.tile_bytes(kind, rows, cols)
        if not size:
            return matrix
        data = self._take(size)
        self._ops.pack_tiles(kind, matrix.data.data_ptr(), matrix.data.shape[1], rows, cols, data.data_ptr())
        return TiledMatrix(matrix.format, matrix.shape, data, self._ops)

    def _take(self, size: int) -> Tensor:
        """Memory that is all zero."""
        room = padded(size, _ALIGNMENT)
        if len(self._block) < room:
            self._block = huge_zeros(max(room, _BLOCK_BYTES))
        taken, self._block = self._block[:size], self._block[room:]
        return taken
