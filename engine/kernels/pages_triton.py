"""Reading pages in Triton: the codecs, as every kernel that meets encoded K and V decodes them. See PageLayout."""

from __future__ import annotations

from octavo.engine.kernels.triton_jit import constexpr, jit, tensor, tl


@jit
def load_keys(page: tensor, head: tensor, channel: tensor, token: tensor, layout: constexpr) -> tensor:
    """K of one KV head of the page at byte address `page`: float32, as `channel` and `token` broadcast.

    Channels and tokens that are not in the page are 0.
    """
    size: constexpr = layout.page_size
    dim: constexpr = layout.head_dim
    bits: constexpr = layout.keys.bits
    codes_at: constexpr = layout.keys.codes
    there = (channel < dim) & (token < size)
    if layout.codec.is_lossless:
        keys = _load_plain(page + codes_at, (head * size + token) * dim + channel, there, bits)
    else:
        stride: constexpr = layout.token_stride
        scale_at = head * layout.channel_stride + channel
        codes = _load_codes(page + codes_at, (head * dim + channel) * stride, token, there, bits)
        scale = _load_half(page + layout.keys.scales, scale_at, channel < dim)
        zero = _load_half(page + layout.keys.zeros, scale_at, channel < dim)
        keys = codes * scale + zero
        if bits == 4:
            first = _load_plain(page + layout.keys.first_token, scale_at, channel < dim, 16)
            keys = tl.where(token == 0, first, keys)
        keys = tl.where(there, keys, 0.0)
    return keys


@jit
def load_values(page: tensor, head: tensor, token: tensor, channel: tensor, layout: constexpr) -> tensor:
    """V, likewise. Those of 4 bits are still multiplied with the Hadamard matrix."""
    size: constexpr = layout.page_size
    dim: constexpr = layout.head_dim
    bits: constexpr = layout.values.bits
    codes_at: constexpr = layout.values.codes
    there = (channel < dim) & (token < size)
    if layout.codec.is_lossless:
        values = _load_plain(page + codes_at, (head * size + token) * dim + channel, there, bits)
    else:
        stride: constexpr = layout.channel_stride
        scale_at = (head * layout.num_groups + channel // 32) * layout.token_stride + token
        codes = _load_codes(page + codes_at, (head * size + token) * stride, channel, there, bits)
        scale = _load_half(page + layout.values.scales, scale_at, there)
        zero = _load_half(page + layout.values.zeros, scale_at, there)
        values = tl.where(there, codes * scale + zero, 0.0)
    return values


@jit
def hadamard(x: tensor, rows: constexpr, channels: constexpr, size: constexpr) -> tensor:
    """Blocks of `size` channels of `x` [rows, channels], all powers of two, times the normalised Hadamard matrix."""
    scale: constexpr = size**-0.5
    for power in tl.static_range(10):
        if (2 << power) <= size:
            pairs = tl.reshape(x, (rows, channels // (2 << power), 2, 1 << power))
            first, second = tl.split(tl.permute(pairs, (0, 1, 3, 2)))
            mixed = tl.join(first + second, first - second)
            x = tl.reshape(tl.permute(mixed, (0, 1, 3, 2)), (rows, channels))
    return x * scale


@jit
def _load_plain(start: tensor, at: tensor, there: tensor, bits: constexpr) -> tensor:
    if bits == 32:
        numbers = tl.load(start.to(tl.pointer_type(tl.float32)) + at, mask=there, other=0.0)
    else:
        numbers = tl.load(start.to(tl.pointer_type(tl.bfloat16)) + at, mask=there, other=0.0).to(tl.float32)
    return numbers


@jit
def _load_half(start: tensor, at: tensor, there: tensor) -> tensor:
    return tl.load(start.to(tl.pointer_type(tl.float16)) + at, mask=there, other=0.0).to(tl.float32)


@jit
def _load_codes(start: tensor, row: tensor, number: tensor, there: tensor, bits: constexpr) -> tensor:
    """Code `number` of rows of codes, the first of which is code `row` of all: float32."""
    if bits == 8:
        codes = tl.load(start + row + number, mask=there, other=0).to(tl.float32)
    else:
        packed = tl.load(start + row // 2 + number // 32 * 16 + number % 16, mask=there, other=0).to(tl.int32)
        codes = ((packed >> (number % 32 // 16 * 4)) & 15).to(tl.float32)
    return codes
