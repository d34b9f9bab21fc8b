"""How the K and V of a complete page are stored: the codecs, and where a slot keeps what.

`f32` and `bf16` keep the numbers. The others store codes of 8 or 4 bits, and a float16 scale and zero for each group
of numbers. Keys differ most from channel to channel, so the tokens of a page are one group in every channel of K;
values differ from token to token, so 32 channels of a token are a group of V (KIVI, Liu et al. 2024,
arXiv:2402.02750). Before 4 bits a head of V is multiplied with a Hadamard matrix, which spreads outliers over all
channels (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456); in K it would spread the large channels of models with a bias
over the others, whose scales have no need of it. With K in 4 bits, the key of a page's first token is kept in bfloat16
beside the codes: in a context's first page it is the attention sink (Xiao et al. 2023, arXiv:2309.17453), so unlike the
others that it would widen every group, and attended to more than all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GROUP = 32
"""Channels of V that share a scale; also the unit that rows of codes are padded to."""

_HALF_BYTES = 2
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
    """Where the K or the V of a slot lie: byte offsets. Regions that a codec does not have are empty."""

    bits: int
    codes: int
    scales: int
    zeros: int
    first_token: int
    end: int


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The bytes of one layer of one page: the part of K, then the part of V, each region padded to 64 bytes.

    Lossless: K and V are `[num_kv_heads, page_size, head_dim]`, as in the unfinished page.

    Encoded, with tokens padded to `token_stride` and channels to `channel_stride`, both multiples of 32:

    - codes of K `[num_kv_heads, head_dim, token_stride]`, channel by channel, so that 32 scores are computed at once,
      then scales and zeros of K, float16 `[num_kv_heads, channel_stride]` each, and with 4 bits the first token's key,
      bfloat16 `[num_kv_heads, channel_stride]`, whose codes are 0 and mean nothing;
    - codes of V `[num_kv_heads, page_size, channel_stride]`, token by token, then scales and zeros of V, float16
      `[num_kv_heads, num_groups, token_stride]` each.

    A code is worth `code * scale + zero`. Of each 32 codes of 4 bits, byte i holds number i in its low half and number
    i + 16 in its high half. Padding is zero.
    """

    codec: Codec
    num_kv_heads: int
    page_size: int
    head_dim: int
    keys: Part = field(init=False, compare=False)
    values: Part = field(init=False, compare=False)
    slot_bytes: int = field(init=False, compare=False)
    """Bytes of a slot: a multiple of 64."""

    def __post_init__(self) -> None:
        if self.head_dim % 8 or self.page_size < 2:
            raise ValueError(
                f"KV pages hold 2 tokens or more, of a head dimension that is a multiple of 8, not {self.page_size} "
                f"of {self.head_dim}."
            )
        key_bits, value_bits = self.codec.key_bits, self.codec.value_bits
        num_exact = self.channel_stride if key_bits == 4 else 0
        keys = self._part(0, key_bits, self.head_dim * self.token_stride, self.channel_stride, num_exact)
        num_scales = self.num_groups * self.token_stride
        values = self._part(keys.end, value_bits, self.page_size * self.channel_stride, num_scales, 0)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "slot_bytes", values.end)

    @property
    def token_stride(self) -> int:
        return padded(self.page_size, GROUP)

    @property
    def channel_stride(self) -> int:
        return padded(self.head_dim, GROUP)

    @property
    def num_groups(self) -> int:
        """Groups of channels; the last may be smaller."""
        return self.channel_stride // GROUP

    @property
    def hadamard_size(self) -> int:
        """The order of the Hadamard matrix of V in 4 bits: the largest power of two that divides `head_dim`."""
        return self.head_dim & -self.head_dim

    def _part(self, start: int, bits: int, num_codes: int, num_scales: int, num_exact: int) -> Part:
        """A part with so many codes, scales and exact numbers in every KV head; lossless, its codes are its numbers."""
        if self.codec.is_lossless:
            num_codes, num_scales = self.page_size * self.head_dim, 0
        scales = start + padded(self.num_kv_heads * num_codes * bits // 8, _ALIGNMENT)
        scale_bytes = padded(self.num_kv_heads * num_scales * _HALF_BYTES, _ALIGNMENT)
        exact = scales + 2 * scale_bytes
        end = exact + padded(self.num_kv_heads * num_exact * _HALF_BYTES, _ALIGNMENT)
        return Part(bits, start, scales, scales + scale_bytes, exact, end)


def padded(count: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `count`."""
    return -(-count // unit) * unit
