"""The weight formats that run in place, and their expansion to float32 in plain torch.

The layouts are those of GGUF (ggml's quantized blocks): a row of a matrix is a run of blocks, a block
holds `block_size` weights in `block_bytes` bytes with its own scales. Every function here works on
raw bytes (uint8 tensors) on any device, and reproduces `gguf.quants.dequantize` bit for bit: the same
float32 operations in the same order, none of them fused.
"""

from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor


class Format(Enum):
    """A weight format: its ggml type number, weights per block and bytes per block."""

    F32 = (0, 1, 4)
    F16 = (1, 1, 2)
    Q4_0 = (2, 32, 18)
    Q4_1 = (3, 32, 20)
    Q5_0 = (6, 32, 22)
    Q5_1 = (7, 32, 24)
    Q8_0 = (8, 32, 34)
    Q4_K = (12, 256, 144)
    Q5_K = (13, 256, 176)
    Q6_K = (14, 256, 210)
    BF16 = (30, 1, 2)

    def __init__(self, ggml_type: int, block_size: int, block_bytes: int) -> None:
        self.ggml_type = ggml_type
        self.block_size = block_size
        self.block_bytes = block_bytes

    def row_bytes(self, cols: int) -> int:
        """Bytes of a row of `cols` weights; ValueError if a row does not end at a block's end."""
        blocks, rest = divmod(cols, self.block_size)
        if rest:
            raise ValueError(f"{cols} columns are not whole {self.name} blocks of {self.block_size}")
        return blocks * self.block_bytes


FORMAT_OF_GGML_TYPE = {member.ggml_type: member for member in Format}


def dequantize(blocks: Tensor, format: Format) -> Tensor:  # noqa: A002
    """Expand blocks to float32.

    blocks: uint8 [..., n_blocks * block_bytes], last dimension contiguous; a scale must lie at an even
    address, as it does in every GGUF file. Returns float32 [..., n_blocks * block_size] on the same device.
    """
    dense = _DENSE.get(format)
    if dense is not None:
        return blocks.view(dense).to(torch.float32)
    split = blocks.reshape(-1, format.block_bytes)
    return _EXPAND[format](split).reshape(*blocks.shape[:-1], -1)


def _half(block_bytes: Tensor) -> Tensor:
    """Little-endian float16 fields, uint8 [n, 2k], as float32 [n, k]."""
    return block_bytes.view(torch.float16).to(torch.float32)


def _nibbles(packed: Tensor, run: int) -> Tensor:
    """uint8 [n, k] -> [n, k/run, 2, run]: of each run of bytes the low nibbles, then the high ones."""
    packed = packed.reshape(packed.shape[0], -1, run)
    return torch.stack((packed & 0x0F, packed >> 4), dim=2)


def _fifth_bits(high: Tensor) -> Tensor:
    """uint8 [n, 4] -> [n, 32]: bit i of the little-endian word, moved to bit 4."""
    shifts = torch.arange(8, dtype=torch.uint8, device=high.device)
    return (((high.unsqueeze(-1) >> shifts) & 1) << 4).reshape(-1, 32)


def _signed(quants: Tensor, zero: int) -> Tensor:
    return (quants.to(torch.int8) - zero).to(torch.float32)


def _q4_0(b: Tensor) -> Tensor:
    return _half(b[:, :2]) * _signed(_nibbles(b[:, 2:], 16).reshape(-1, 32), 8)


def _q4_1(b: Tensor) -> Tensor:
    quants = _nibbles(b[:, 4:], 16).reshape(-1, 32).to(torch.float32)
    return _half(b[:, :2]) * quants + _half(b[:, 2:4])


def _q5_0(b: Tensor) -> Tensor:
    quants = _nibbles(b[:, 6:], 16).reshape(-1, 32) | _fifth_bits(b[:, 2:6])
    return _half(b[:, :2]) * _signed(quants, 16)


def _q5_1(b: Tensor) -> Tensor:
    quants = _nibbles(b[:, 8:], 16).reshape(-1, 32) | _fifth_bits(b[:, 4:8])
    return _half(b[:, :2]) * quants.to(torch.float32) + _half(b[:, 2:4])


def _q8_0(b: Tensor) -> Tensor:
    return b[:, 2:].view(torch.int8).to(torch.float32) * _half(b[:, :2])


def _k_scales(b: Tensor) -> tuple[Tensor, Tensor]:
    """Q4_K and Q5_K: the 8 scales and 8 minimums of a superblock, float32 [n, 8, 1] each.

    Twelve bytes hold sixteen 6-bit numbers: bytes 0-3 and 4-7 have the first four scales and minimums in
    their low 6 bits; their top 2 bits complete the nibbles of bytes 8-11, the last four of each.
    """
    low, mid, high = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = torch.cat((low & 0x3F, (high & 0x0F) | ((low >> 2) & 0x30)), dim=1)
    minimums = torch.cat((mid & 0x3F, (high >> 4) | ((mid >> 2) & 0x30)), dim=1)
    scales = _half(b[:, :2]) * scales.to(torch.float32)
    minimums = _half(b[:, 2:4]) * minimums.to(torch.float32)
    return scales.unsqueeze(-1), minimums.unsqueeze(-1)


def _q4_k(b: Tensor) -> Tensor:
    scales, minimums = _k_scales(b)
    return scales * _nibbles(b[:, 16:], 32).reshape(-1, 8, 32).to(torch.float32) - minimums


def _q5_k(b: Tensor) -> Tensor:
    scales, minimums = _k_scales(b)
    shifts = torch.arange(8, dtype=torch.uint8, device=b.device).reshape(1, 8, 1)
    fifth = ((b[:, 16:48].unsqueeze(1) >> shifts) & 1) << 4
    quants = _nibbles(b[:, 48:], 32).reshape(-1, 8, 32) | fifth
    return scales * quants.to(torch.float32) - minimums


def _q6_k(b: Tensor) -> Tensor:
    low = _nibbles(b[:, :128], 64).reshape(-1, 8, 32)
    shifts = torch.tensor((0, 2, 4, 6), dtype=torch.uint8, device=b.device).reshape(1, 1, 4, 1)
    high = ((b[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3).reshape(-1, 8, 32)
    quants = _signed(low | (high << 4), 32).reshape(-1, 16, 16)
    scales = _half(b[:, 208:]) * b[:, 192:208].view(torch.int8).to(torch.float32)
    return scales.unsqueeze(-1) * quants


_DENSE = {Format.F32: torch.float32, Format.F16: torch.float16, Format.BF16: torch.bfloat16}

_EXPAND: dict[Format, Callable[[Tensor], Tensor]] = {
    Format.Q4_0: _q4_0,
    Format.Q4_1: _q4_1,
    Format.Q5_0: _q5_0,
    Format.Q5_1: _q5_1,
    Format.Q8_0: _q8_0,
    Format.Q4_K: _q4_k,
    Format.Q5_K: _q5_k,
    Format.Q6_K: _q6_k,
}
