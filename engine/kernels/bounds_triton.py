"""The boxes around the keys of pages, and those of sections, in Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.pages_triton import load_keys
from octavo.engine.kernels.triton_jit import EXACT, constexpr, jit, power_of_two, tensor, tl
from octavo.engine.kv.bounds import LANES, SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import PageLayout


def page_bounds_triton(encoded: Tensor, pages: PageLayout, layout: BoundsLayout) -> Tensor:
    """`page_bounds_torch` in Triton, to the bit."""
    out = torch.zeros(len(encoded), layout.page_bytes, dtype=torch.uint8, device=encoded.device)
    if len(encoded):
        _page_bounds[(len(encoded), layout.num_kv_heads)](
            encoded, out, pages=pages, layout=layout, channels=power_of_two(max(layout.head_dim, LANES)),
            tokens=power_of_two(layout.page_size), lanes=LANES, **EXACT,
        )  # fmt: skip
    return out


def section_bounds_triton(boxes: Tensor, layout: BoundsLayout, page_ids: Tensor) -> Tensor:
    """`section_bounds_torch` in Triton, to the bit. Page ids are not checked."""
    num_sections = -(-len(page_ids) // SECTION_PAGES)
    out = torch.zeros(num_sections, layout.section_bytes, dtype=torch.uint8, device=boxes.device)
    if num_sections:
        _section_bounds[(num_sections, layout.num_kv_heads)](
            boxes, page_ids, out, len(page_ids),
            layout=layout, pages=SECTION_PAGES, channels=power_of_two(layout.head_dim), **EXACT,
        )  # fmt: skip
    return out


@jit
def _page_bounds(
    encoded: tensor,
    out: tensor,
    pages: constexpr,
    layout: constexpr,
    channels: constexpr,
    tokens: constexpr,
    lanes: constexpr,
) -> None:
    """One head of one page."""
    infinity: constexpr = float("inf")
    page, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel, token = tl.arange(0, channels)[:, None], tl.arange(0, tokens)[None, :]
    keys = load_keys(encoded + page * pages.slot_bytes, head, channel, token, pages)
    lower = tl.min(tl.where(token < layout.page_size, keys, infinity), 1)
    upper = tl.max(tl.where(token < layout.page_size, keys, -infinity), 1)
    to = out + page * layout.page_bytes
    channel = tl.arange(0, channels)
    there = channel < layout.head_dim
    origin, step = _store_box(to + head * 2 * layout.stride, lower, upper, channel, there, layout)
    grid = (to + layout.page_codes).to(tl.pointer_type(tl.float16)) + head * 2
    tl.store(grid, step.to(tl.float16))
    tl.store(grid + 1, origin.to(tl.float16))
    low = _code_below(lower, origin, step) * step + origin
    width = _code_above(upper, origin, step) * step + origin - low
    way = _divided(keys - low[:, None], tl.where(width > 0, width, 1.0)[:, None]) * 3.0
    thirds = tl.minimum(tl.maximum((way + 12582912.0) - 12582912.0, 0.0), 3.0).to(tl.int32)
    shift = channel % lanes // 2 * 2 + channel % 2 * lanes
    there = there[:, None] & (tl.arange(0, tokens)[None, :] < layout.page_size)
    parts = tl.where(there, thirds << shift[:, None], 0)
    blocks: constexpr = channels // lanes
    words = tl.sum(tl.reshape(parts, (blocks, lanes, tokens)), 1)
    block, token = tl.arange(0, blocks)[:, None], tl.arange(0, tokens)[None, :]
    at = (token // lanes * (layout.stride // lanes) + block) * lanes + token % lanes
    start = (to + layout.box_bytes).to(tl.pointer_type(tl.int32))
    start += head * layout.sketch_tokens * (layout.stride // lanes)
    tl.store(start + at, words, mask=(token < layout.page_size) & (block < layout.stride // lanes))


@jit
def _section_bounds(
    boxes: tensor,
    page_ids: tensor,
    out: tensor,
    num_pages: tensor,
    layout: constexpr,
    pages: constexpr,
    channels: constexpr,
) -> None:
    """One head of one section."""
    section, head = tl.program_id(0), tl.program_id(1)
    # A page that stands for those that are missing changes no maximum.
    number = tl.minimum(section * pages + tl.arange(0, pages), num_pages - 1)
    box = boxes + tl.load(page_ids + number).to(tl.int64) * layout.box_bytes
    channel = tl.arange(0, channels)
    there = channel < layout.head_dim
    grid = (box + layout.page_codes).to(tl.pointer_type(tl.float16)) + head * 2
    steps, origins = tl.load(grid).to(tl.float32), tl.load(grid + 1).to(tl.float32)
    codes = box[:, None] + head * 2 * layout.stride + channel[None, :]
    lower = tl.load(codes, mask=there[None, :], other=0).to(tl.float32) * steps[:, None] + origins[:, None]
    upper = tl.load(codes + layout.stride, mask=there[None, :], other=0).to(tl.float32)
    upper = upper * steps[:, None] + origins[:, None]
    centres, widths = (lower + upper) * 0.5, tl.max(upper - lower, 0)
    to = out + section.to(tl.int64) * layout.section_bytes
    row = to + head * 3 * layout.stride
    origin, step = _store_box(row, tl.min(centres, 0), tl.max(centres, 0), channel, there, layout)
    zero = tl.zeros_like(origin)
    width_step = _step(tl.max(tl.where(there, widths, -float("inf")), 0), zero)
    code = _code_above(widths, zero, width_step)
    tl.store(row + 2 * layout.stride + channel, code.to(tl.uint8), mask=there)
    grid = (to + layout.section_codes).to(tl.pointer_type(tl.float16)) + head * 4
    tl.store(grid, step.to(tl.float16))
    tl.store(grid + 1, origin.to(tl.float16))
    tl.store(grid + 2, width_step.to(tl.float16))
    tl.store(grid + 3, tl.max(steps, 0).to(tl.float16))


@jit
def _store_box(row: tensor, lower: tensor, upper: tensor, channel: tensor, there: tensor, layout: constexpr) -> tensor:
    """Write the codes of both corners, rounded outward; returns origin and step."""
    infinity: constexpr = float("inf")
    origin = _half_towards(tl.min(tl.where(there, lower, infinity), 0), -1) + 0.0  # no negative zero
    step = _step(tl.max(tl.where(there, upper, -infinity), 0), origin)
    tl.store(row + channel, _code_below(lower, origin, step).to(tl.uint8), mask=there)
    tl.store(row + layout.stride + channel, _code_above(upper, origin, step).to(tl.uint8), mask=there)
    return origin, step


@jit
def _step(highest: tensor, origin: tensor) -> tensor:
    """The smallest step with which the highest code reaches `highest`."""
    step = _half_towards(_divided(highest - origin, 255.0), 1) + 0.0
    # The division has rounded, too.
    return tl.where(step * 255.0 + origin < highest, _next_half(step.to(tl.float16), 1), step)


@jit
def _code_below(x: tensor, origin: tensor, step: tensor) -> tensor:
    """The highest code worth no more than `x`."""
    divisor = tl.where(step > 0, step, 1.0)
    code = tl.floor(_divided(x - origin, divisor))
    code = tl.minimum(tl.maximum(code, 0.0), 255.0)
    return tl.where((code > 0) & (code * step + origin > x), code - 1, code)


@jit
def _code_above(x: tensor, origin: tensor, step: tensor) -> tensor:
    """The lowest code worth no less than `x`."""
    divisor = tl.where(step > 0, step, 1.0)
    code = tl.ceil(_divided(x - origin, divisor))
    code = tl.minimum(tl.maximum(code, 0.0), 255.0)
    return tl.where((code < 255) & (code * step + origin < x), code + 1, code)


@jit
def _divided(x: tensor, divisor: tensor) -> tensor:
    """Rounded to the nearest, as Triton's own division is not."""
    return tl.div_rn(x, tl.zeros_like(x) + divisor)


@jit
def _half_towards(x: tensor, sign: constexpr) -> tensor:
    """The float16 next to `x`, not above it where `sign` is -1, not below it where it is 1: float32."""
    half = x.to(tl.float16)
    value = half.to(tl.float32)
    return tl.where((x - value) * sign > 0, _next_half(half, sign), value)


@jit
def _next_half(half: tensor, sign: constexpr) -> tensor:
    """The float16 after `half` upwards (1) or downwards (-1), as float32."""
    bits = half.to(tl.int16, bitcast=True).to(tl.int32)
    step = tl.where(bits < 0, -sign, sign)  # numbers below 0 count away from it
    first = 1 if sign > 0 else -32767  # the smallest on either side of 0
    following = tl.where((bits & 0x7FFF) == 0, first, bits + step)
    return following.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
