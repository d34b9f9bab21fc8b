"""Encoding complete pages in Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.pages_triton import hadamard
from octavo.engine.kernels.triton_jit import EXACT, constexpr, jit, narrowed, power_of_two, tensor, tl
from octavo.engine.kv.codec import GROUP, PageLayout


def encode_pages_triton(kv: Tensor, layout: PageLayout) -> Tensor:
    """`encode_pages_torch` in Triton, to the bit."""
    if layout.codec.is_lossless:
        return encode_pages_torch(kv, layout)  # nothing but a copy
    kv = kv.contiguous()
    out = torch.zeros(len(kv), layout.slot_bytes, dtype=torch.uint8, device=kv.device)
    grid = len(kv), layout.num_kv_heads
    channels = power_of_two(layout.head_dim, GROUP)
    if len(kv):
        units = power_of_two(layout.token_stride // 2)
        _encode_keys[grid](kv, out, layout=layout, channels=channels, units=units, **EXACT)
        tokens = power_of_two(layout.page_size)
        _encode_values[grid](kv, out, layout=layout, tokens=tokens, groups=channels // GROUP, **EXACT)
    return out


@jit
def _encode_keys(kv: tensor, out: tensor, layout: constexpr, channels: constexpr, units: constexpr) -> None:
    """K of one head of one page: a channel is a group. A unit is the two tokens whose codes of 4 bits share a byte."""
    size: constexpr = layout.page_size
    dim: constexpr = layout.head_dim
    bits: constexpr = layout.keys.bits
    codes_at: constexpr = layout.keys.codes
    stride: constexpr = layout.token_stride
    scales_at: constexpr = layout.keys.scales
    zeros_at: constexpr = layout.keys.zeros
    page, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel, unit = tl.arange(0, channels)[:, None], tl.arange(0, units)[None, :]
    low_token = unit // 16 * 32 + unit % 16
    high_token = low_token + 16
    k = kv + (page * 2 * layout.num_kv_heads + head) * size * dim + channel
    first = 1 if bits == 4 else 0
    low_there = (channel < dim) & (low_token >= first) & (low_token < size)
    high_there = (channel < dim) & (high_token < size)
    low = tl.load(k + low_token * dim, mask=low_there, other=0.0).to(tl.float32)
    high = tl.load(k + high_token * dim, mask=high_there, other=0.0).to(tl.float32)
    scale, zero = _scale_and_zero(low, high, low_there, high_there, bits)
    low, high = _codes(low, low_there, scale, zero, bits), _codes(high, high_there, scale, zero, bits)
    to = out + page * layout.slot_bytes
    row = to + codes_at + (head * dim + channel) * stride * bits // 8
    is_row = (channel < dim) & (unit < stride // 2)
    if bits == 4:
        tl.store(row + unit, (low | (high << 4)).to(tl.uint8), mask=is_row)
        exact_at: constexpr = layout.keys.first_token
        at = head * layout.channel_stride + channel
        exact = tl.load(k, mask=channel < dim, other=0.0).to(tl.float32)
        tl.store(
            (to + exact_at).to(tl.pointer_type(tl.bfloat16)) + at, narrowed(exact, tl.bfloat16), mask=channel < dim
        )
    else:
        tl.store(row + low_token, low.to(tl.uint8), mask=is_row)
        tl.store(row + high_token, high.to(tl.uint8), mask=is_row)
    at = head * layout.channel_stride + channel
    scale, zero = tl.expand_dims(scale, 1), tl.expand_dims(zero, 1)
    tl.store((to + scales_at).to(tl.pointer_type(tl.float16)) + at, scale, mask=channel < dim)
    tl.store((to + zeros_at).to(tl.pointer_type(tl.float16)) + at, zero, mask=channel < dim)


@jit
def _encode_values(kv: tensor, out: tensor, layout: constexpr, tokens: constexpr, groups: constexpr) -> None:
    """V of one head of one page: 32 channels of a token are a group, of which byte i has channels i and i + 16."""
    size: constexpr = layout.page_size
    dim: constexpr = layout.head_dim
    bits: constexpr = layout.values.bits
    codes_at: constexpr = layout.values.codes
    scales_at: constexpr = layout.values.scales
    zeros_at: constexpr = layout.values.zeros
    page, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token, channel = tl.arange(0, tokens)[:, None], tl.arange(0, groups * 32)[None, :]
    v = kv + ((page * 2 + 1) * layout.num_kv_heads + head) * size * dim
    x = tl.load(v + token * dim + channel, mask=(token < size) & (channel < dim), other=0.0).to(tl.float32)
    if bits == 4:
        x = hadamard(x, tokens, groups * 32, layout.hadamard_size)
    low, high = tl.split(tl.permute(tl.reshape(x, (tokens, groups, 2, 16)), (0, 1, 3, 2)))
    token = tl.arange(0, tokens)[:, None, None]
    group = tl.arange(0, groups)[None, :, None]
    channel = group * 32 + tl.arange(0, 16)[None, None, :]
    low_there = (token < size) & (channel < dim)
    high_there = (token < size) & (channel + 16 < dim)
    scale, zero = _scale_and_zero(low, high, low_there, high_there, bits)
    low, high = _codes(low, low_there, scale, zero, bits), _codes(high, high_there, scale, zero, bits)
    to = out + page * layout.slot_bytes
    row = to + codes_at + (head * size + token) * (layout.channel_stride * bits // 8)
    is_row = (token < size) & (channel < layout.channel_stride)
    if bits == 4:
        tl.store(row + channel // 2 - channel % 32 // 2 + channel % 16, (low | (high << 4)).to(tl.uint8), mask=is_row)
    else:
        tl.store(row + channel, low.to(tl.uint8), mask=is_row)
        tl.store(row + channel + 16, high.to(tl.uint8), mask=is_row)
    token, group = tl.arange(0, tokens)[:, None], tl.arange(0, groups)[None, :]
    at = (head * layout.num_groups + group) * layout.token_stride + token
    there = (token < size) & (group < layout.num_groups)
    tl.store((to + scales_at).to(tl.pointer_type(tl.float16)) + at, scale, mask=there)
    tl.store((to + zeros_at).to(tl.pointer_type(tl.float16)) + at, zero, mask=there)


@jit
def _scale_and_zero(low: tensor, high: tensor, low_there: tensor, high_there: tensor, bits: constexpr) -> tensor:
    """float16 scale and zero of groups that lie in the last dimension of `low` and `high`. See `quantize`."""
    axis: constexpr = len(low.shape) - 1
    most: constexpr = float(2**bits - 1)
    infinity: constexpr = float("inf")
    lowest = tl.minimum(
        tl.min(tl.where(low_there, low, infinity), axis), tl.min(tl.where(high_there, high, infinity), axis)
    )
    highest = tl.maximum(
        tl.max(tl.where(low_there, low, -infinity), axis), tl.max(tl.where(high_there, high, -infinity), axis)
    )
    steps = tl.full(lowest.shape, most, tl.float32)
    scale = tl.minimum(tl.div_rn(highest - lowest, steps), 65504.0).to(tl.float16)
    zero = (tl.minimum(tl.maximum(lowest, -65504.0), 65504.0) + 0.0).to(tl.float16)  # + 0.0: no negative zero
    return scale, zero


@jit
def _codes(x: tensor, there: tensor, scale: tensor, zero: tensor, bits: constexpr) -> tensor:
    most: constexpr = float(2**bits - 1)
    axis: constexpr = len(x.shape) - 1
    divisor = scale.to(tl.float32)
    divisor = tl.expand_dims(tl.where(divisor > 0, divisor, 1.0), axis)
    distance = x - tl.expand_dims(zero.to(tl.float32), axis)
    steps = tl.div_rn(distance, tl.broadcast_to(divisor, distance.shape))
    steps = tl.minimum(tl.maximum(steps, 0.0), most)
    # Adding 1.5 * 2^23 leaves no place for a fraction: rounded to even, as torch rounds.
    return tl.where(there, (steps + 12582912.0) - 12582912.0, 0.0).to(tl.int32)
