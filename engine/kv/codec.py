"""How the K and V of a complete page are stored: the codecs, and where a slot keeps what.

`f32` and `bf16` keep the numbers. In the others, groups of 32 channels of one token share a float16 scale (8 bits,
symmetric) or a scale and a zero (4 bits, asymmetric). Before 4 bits each head is multiplied with a Hadamard matrix,
which spreads an outlier over all channels (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GROUP = 32
"""Channels that share a scale, and tokens that lie side by side in the codes of K."""

_SCALE_BYTES = 2
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Codec:
    """Bits of one number of K and of V: 32 (float32), 16 (bfloat16), 8 or 4."""

    name: str
    key_bits: int
    value_bits: int

    @property
    def is_lossless(self) -> bool:
        """Whether a page keeps the numbers as they were computed, in float32 or bfloat16."""
        return self.key_bits >= 16


CODECS: Mapping[str, Codec] = {
    codec.name: codec
    for codec in (
        Codec("f32", 32, 32),
        Codec("bf16", 16, 16),
        Codec("k8v8", 8, 8),
        Codec("k8v4", 8, 4),
        Codec("k4v4", 4, 4),
    )
}


@dataclass(frozen=True, slots=True)
class Part:
    """Where the K or the V of a slot lie: byte offsets. `zeros` equals `end` where there are none."""

    bits: int
    codes: int
    scales: int
    zeros: int
    end: int


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The bytes of one layer of one page: the part of K, then the part of V, each region padded to 64 bytes.

    Lossless: K and V are `[num_kv_heads, page_size, head_dim]`, as in the unfinished page.

    Quantized, with tokens padded to `token_stride` and channels to `channel_stride`, both multiples of 32:

    - codes of K `[num_kv_heads, head_dim, token_stride]`, channel by channel, so that 32 scores are computed at once;
    - codes of V `[num_kv_heads, page_size, channel_stride]`, token by token;
    - scales, then zeros if the part has 4 bits, float16 `[num_kv_heads, num_groups, token_stride]`.

    A code of 8 bits is a signed byte, worth `code * scale`. Of each 32 codes of 4 bits, byte i holds number i in its
    low half and number i + 16 in its high half; a code is worth `code * scale + zero`. Padding is zero.
    """

    codec: Codec
    num_kv_heads: int
    page_size: int
    head_dim: int

    def __post_init__(self) -> None:
        if self.head_dim % 8:
            raise ValueError(f"The head dimension is {self.head_dim}; KV pages need a multiple of 8.")

    @property
    def token_stride(self) -> int:
        return _padded(self.page_size, GROUP)

    @property
    def channel_stride(self) -> int:
        return _padded(self.head_dim, GROUP)

    @property
    def num_groups(self) -> int:
        """Groups of channels; the last may be smaller."""
        return self.channel_stride // GROUP

    @property
    def hadamard_size(self) -> int:
        """The order of the Hadamard matrices before 4 bits: the largest power of two that divides `head_dim`."""
        return self.head_dim & -self.head_dim

    @property
    def keys(self) -> Part:
        return self._part(0, self.codec.key_bits, self.head_dim, self.token_stride)

    @property
    def values(self) -> Part:
        return self._part(self.keys.end, self.codec.value_bits, self.page_size, self.channel_stride)

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot: a multiple of 64."""
        return self.values.end

    def _part(self, start: int, bits: int, rows: int, stride: int) -> Part:
        if bits >= 16:
            numbers = self.num_kv_heads * self.page_size * self.head_dim
            end = start + _padded(numbers * bits // 8, _ALIGNMENT)
            return Part(bits, start, end, end, end)
        scale_bytes = _padded(self.num_kv_heads * self.num_groups * self.token_stride * _SCALE_BYTES, _ALIGNMENT)
        scales = start + _padded(self.num_kv_heads * rows * stride * bits // 8, _ALIGNMENT)
        zeros = scales + scale_bytes
        return Part(bits, start, scales, zeros, zeros + (scale_bytes if bits == 4 else 0))


def _padded(count: int, unit: int) -> int:
    return -(-count // unit) * unit
