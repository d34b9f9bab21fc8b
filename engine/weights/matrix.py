"""Weight matrices as the engine holds them: quantized, expanded only where and when they are read."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from octavo.engine.weights.formats import Format, dequantize

# Rows are expanded in runs of about this many weights, so that the float32 scratch stays in the cache
# and never grows with the matrix.
_CHUNK_WEIGHTS = 1 << 20


class Weight(Protocol):
    """A matrix [rows = outputs, cols = inputs] in whatever form it is stored."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nbytes(self) -> int:
        """Bytes held in memory (for a memory-mapped file: bytes mapped)."""
        ...

    @property
    def format_name(self) -> str: ...

    @property
    def device(self) -> torch.device: ...

    def dequantize(self, dtype: torch.dtype, rows: slice | None = None) -> Tensor:
        """The rows asked for (all without `rows`; step 1 only), as a new `dtype` tensor [n, cols]."""
        ...

    def gather_rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """ids: int64 [n] -> the `dtype` tensor [n, cols] of those rows: an embedding lookup."""
        ...


@dataclass(frozen=True, eq=False)
class FormatMatrix:
    """What the matrices in a GGUF format have in common. data: their bytes, uint8."""

    format: Format
    shape: tuple[int, int]
    data: Tensor

    @property
    def nbytes(self) -> int:
        return self.data.numel()

    @property
    def format_name(self) -> str:
        return self.format.name

    @property
    def device(self) -> torch.device:
        return self.data.device


@dataclass(frozen=True, eq=False)
class BlockMatrix(FormatMatrix):
    """A matrix in a GGUF format; dense formats (F16, BF16, F32) are held as raw bytes too.

    data: uint8 [rows, row_bytes], contiguous; on a CPU usually a view of the memory-mapped file.
    """

    def __post_init__(self) -> None:
        expected = (self.shape[0], self.format.row_bytes(self.shape[1]))
        shape = tuple(self.data.shape)
        if self.data.dtype != torch.uint8 or shape != expected or not self.data.is_contiguous():
            raise ValueError(
                f"a {self.format.name} matrix {self.shape} takes contiguous uint8 data {expected}, "
                f"not {self.data.dtype} {shape}"
            )

    def dequantize(self, dtype: torch.dtype, rows: slice | None = None) -> Tensor:
        data = self.data if rows is None else self.data[rows]
        count, cols = data.shape[0], self.shape[1]
        step = max(1, _CHUNK_WEIGHTS // max(1, cols))
        if count <= step:
            return dequantize(data, self.format).to(dtype)
        out = torch.empty(count, cols, dtype=dtype, device=data.device)
        for start in range(0, count, step):
            out[start : start + step] = dequantize(data[start : start + step], self.format)
        return out

    def gather_rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        return dequantize(self.data.index_select(0, ids), self.format).to(dtype)
