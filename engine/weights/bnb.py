"""Matrices quantized by bitsandbytes: NF4 (QLoRA, arXiv 2305.14314) and int8 (LLM.int8, arXiv 2208.07339).

bitsandbytes takes seconds to import and few sessions need it, so it is imported where it is used.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Activations beyond this keep their precision, in a 16-bit product beside the int8 one: the paper's value.
_OUTLIER_THRESHOLD = 6.0


@dataclass(frozen=True, eq=False)
class Nf4Matrix:
    """4-bit normal floats in blocks of 64 weights, their scales quantized again (double quantization).

    packed: uint8, two weights a byte, in row order. state: bitsandbytes' QuantState.
    """

    shape: tuple[int, int]
    packed: Tensor
    state: Any

    @classmethod
    def quantize(cls, weight: Tensor) -> "Nf4Matrix":
        """weight: a floating-point matrix [rows, cols], quantized on its own device."""
        from bitsandbytes import functional

        packed, state = functional.quantize_4bit(
            weight.contiguous(), blocksize=64, quant_type="nf4", compress_statistics=True
        )
        return cls((weight.shape[0], weight.shape[1]), packed, state)

    @property
    def nbytes(self) -> int:
        nested = self.state.state2
        parts = (
            self.packed,
            self.state.absmax,
            self.state.code,
            self.state.offset,
            nested.absmax,
            nested.code,
        )
        return sum(int(part.nbytes) for part in parts)

    @property
    def format_name(self) -> str:
        return "NF4"

    @property
    def device(self) -> torch.device:
        return self.packed.device

    def dequantize(self, dtype: torch.dtype, rows: slice | None = None) -> Tensor:
        """As Weight.dequantize; the whole matrix is expanded first."""
        from bitsandbytes import functional

        whole: Tensor = functional.dequantize_4bit(self.packed, self.state)
        return (whole if rows is None else whole[rows]).to(dtype)

    def gather_rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """As Weight.gather_rows; the whole matrix is expanded first."""
        return self.dequantize(dtype).index_select(0, ids)

    def matmul(self, x: Tensor) -> Tensor:
        """x: [..., cols] -> x times the transpose of this matrix, [..., rows], in x's dtype."""
        if self.device.type == "cpu":
            # bitsandbytes' own CPU product looks for a kernel to download.
            return torch.nn.functional.linear(x, self.dequantize(x.dtype))
        from bitsandbytes import matmul_4bit

        product: Tensor = matmul_4bit(x, self.packed.t(), self.state)
        return product


@dataclass(frozen=True, eq=False)
class Int8Matrix:
    """int8 with one scale a row. data: int8 [rows, cols]; scales: float32 [rows], the largest magnitudes."""

    shape: tuple[int, int]
    data: Tensor
    scales: Tensor

    @classmethod
    def quantize(cls, weight: Tensor) -> "Int8Matrix":
        """weight: a floating-point matrix [rows, cols], quantized on its own device (through float16)."""
        from bitsandbytes import functional

        data, scales, _ = functional.int8_vectorwise_quant(weight.to(torch.float16).contiguous())
        return cls((weight.shape[0], weight.shape[1]), data, scales)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.scales.nbytes

    @property
    def format_name(self) -> str:
        return "INT8"

    @property
    def device(self) -> torch.device:
        return self.data.device

    def dequantize(self, dtype: torch.dtype, rows: slice | None = None) -> Tensor:
        rows = slice(None) if rows is None else rows
        return _expand_int8(self.data[rows], self.scales[rows]).to(dtype)

    def gather_rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        return _expand_int8(self.data.index_select(0, ids), self.scales.index_select(0, ids)).to(dtype)

    def matmul(self, x: Tensor) -> Tensor:
        """x: [..., cols] -> x times the transpose of this matrix, [..., rows], in x's dtype.

        Activations are quantized by row on the way; the product is computed in float16 range.
        """
        from bitsandbytes import MatmulLtState, matmul

        state = MatmulLtState()
        state.CB, state.SCB = self.data, self.scales
        state.has_fp16_weights, state.is_training = False, False
        flat = x.reshape(-1, x.shape[-1]).to(torch.float16)
        product: Tensor = matmul(flat, self.data, state=state, threshold=_OUTLIER_THRESHOLD)
        return product.to(x.dtype).reshape(*x.shape[:-1], -1)


def _expand_int8(data: Tensor, scales: Tensor) -> Tensor:
    from bitsandbytes import functional

    expanded: Tensor = functional.int8_vectorwise_dequant(data, scales)
    return expanded
