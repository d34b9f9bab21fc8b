"""The boxes around the keys of pages, and what holds for the boxes of a section of sixteen pages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from octavo.engine.kernels.checks import MOST_DIM, describe, require, require_pages, require_shape
from octavo.engine.kernels.quantize import read_keys
from octavo.engine.kv.bounds import LANES, MOST, SECTION_PAGES, SKETCH_BITS, BoundsLayout
from octavo.engine.kv.codec import PageLayout

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


class PageBounds(NamedTuple):
    """Bounds of pages as selection looks at them: boxes uint8 [n, box_bytes] and sketches uint8 [n, sketch_bytes]."""

    boxes: Tensor
    sketches: Tensor

    @classmethod
    def split(cls, bounds: Tensor, layout: BoundsLayout) -> PageBounds:
        """Of `bounds` uint8 [n, page_bytes]."""
        return cls(bounds[:, : layout.box_bytes].contiguous(), bounds[:, layout.box_bytes :].contiguous())


def page_bounds_torch(encoded: Tensor, pages: PageLayout, layout: BoundsLayout) -> Tensor:
    """The bounds of `encoded` pages uint8 [n, slot_bytes]: uint8 [n, page_bytes].

    Every key, as it decodes, lies in its box as `read_boxes` gives it back.
    """
    keys = read_keys(encoded, pages)
    codes, grid = _encode_box(keys.amin(dim=2), keys.amax(dim=2))
    bounds = _assemble(codes, grid, layout.page_codes, layout.page_bytes)
    lower, upper, _ = read_boxes(bounds, layout)
    width = (upper - lower)[:, :, None]
    thirds = torch.round((keys - lower[:, :, None]) / torch.where(width > 0, width, 1.0) * 3.0)
    bounds[:, layout.box_bytes :] = _pack_sketch(thirds.nan_to_num(nan=0.0).clamp(0, 3).int(), layout)
    return bounds


def section_bounds_torch(boxes: Tensor, layout: BoundsLayout, page_ids: Tensor) -> Tensor:
    """Bounds of the sections of a sequence's pages: uint8 [ceil(p / 16), section_bytes].

    `boxes` uint8 [capacity, box_bytes] is the table of one layer, `page_ids` int32 [p] the pages in order; the last
    section may be of fewer than 16.
    """
    num_sections = -(-len(page_ids) // SECTION_PAGES)
    missing = num_sections * SECTION_PAGES - len(page_ids)
    # A page that stands for those that are missing changes no maximum.
    ids = torch.cat((page_ids, page_ids[-1:].expand(missing))).long()
    shape = num_sections, SECTION_PAGES, layout.num_kv_heads
    lower, upper, steps = (x.reshape(*shape, *x.shape[2:]) for x in read_boxes(boxes[ids], layout))
    centres, widths = (lower + upper) / 2, (upper - lower).amax(dim=1)
    codes, grid = _encode_box(centres.amin(dim=1), centres.amax(dim=1))
    zero = torch.zeros_like(widths[..., 0])
    width_step = _step(widths.amax(dim=-1), zero)
    width_codes = _code_above(widths, zero[..., None], width_step[..., None])
    codes = torch.cat((codes, width_codes[:, :, None]), dim=2)
    grid = torch.cat((grid, torch.stack((width_step, steps.amax(dim=1)), dim=-1)), dim=-1)
    return _assemble(codes, grid, layout.section_codes, layout.section_bytes)


def page_bounds_native(ops: Ops, encoded: Tensor, pages: PageLayout, layout: BoundsLayout) -> Tensor:
    """`page_bounds_torch` in C, on the CPU, to the bit."""
    op = "page_bounds"
    require_pages(op, encoded, pages)
    if (layout.num_kv_heads, layout.head_dim) != (pages.num_kv_heads, pages.head_dim):
        raise ValueError(f"{op} takes bounds of pages like these, {pages}, not {layout}")
    out = torch.zeros(len(encoded), layout.page_bytes, dtype=torch.uint8)
    ops.page_bounds(*sizes(layout), describe(pages), encoded.data_ptr(), len(encoded), out.data_ptr())
    return out


def section_bounds_native(ops: Ops, boxes: Tensor, layout: BoundsLayout, page_ids: Tensor) -> Tensor:
    """`section_bounds_torch` in C, on the CPU, to the bit. ValueError for a page that is not in the table."""
    op = "section_bounds"
    require(op, torch.uint8, boxes)
    require(op, torch.int32, page_ids)
    require_boxes(op, boxes, layout)
    out = torch.zeros(-(-len(page_ids) // SECTION_PAGES), layout.section_bytes, dtype=torch.uint8)
    ops.section_bounds(
        *sizes(layout),
        boxes.data_ptr(),
        len(boxes),
        page_ids.data_ptr(),
        len(page_ids),
        len(out),
        out.data_ptr(),
    )
    return out


def _pack_sketch(thirds: Tensor, layout: BoundsLayout) -> Tensor:
    """Bytes [n, sketch bytes] of `thirds` int32 [n, kv_heads, page_size, d]."""
    n, heads, tokens, dim = thirds.shape
    padded = torch.nn.functional.pad(thirds, (0, layout.stride - dim, 0, layout.sketch_tokens - tokens))
    split = padded.reshape(n, heads, -1, LANES, layout.stride // LANES, LANES // 2, 2)
    words = (split << _sketch_shifts(thirds.device)).sum(dim=(-2, -1), dtype=torch.int32)
    return words.transpose(-2, -1).contiguous().view(torch.uint8).reshape(n, -1)


def read_sketches(sketches: Tensor, layout: BoundsLayout) -> Tensor:
    """Thirds int32 [n, kv_heads, page_size, d] of `sketches` uint8 [n, sketch_bytes]."""
    n, heads, blocks = len(sketches), layout.num_kv_heads, layout.stride // LANES
    words = sketches.view(torch.int32).reshape(n, heads, -1, blocks, LANES)
    split = (words.transpose(-2, -1)[..., None, None] >> _sketch_shifts(sketches.device)) & 3
    thirds = split.reshape(n, heads, layout.sketch_tokens, layout.stride)
    return thirds[:, :, : layout.page_size, : layout.head_dim]


def _sketch_shifts(device: torch.device) -> Tensor:
    """Where in a word the channels stand: int32 [LANES / 2, 2], even and odd ones."""
    even = torch.arange(0, LANES, SKETCH_BITS, dtype=torch.int32, device=device)
    return torch.stack((even, even + LANES), dim=-1)


# A process has a handful of layouts.
@cache
def sizes(layout: BoundsLayout) -> tuple[int, int, int, int, int, int]:
    """`layout` as the C code reads it."""
    numbers = layout.num_kv_heads, layout.head_dim, layout.stride
    return *numbers, layout.page_bytes, layout.section_bytes, layout.page_size


def require_boxes(op: str, boxes: Tensor, layout: BoundsLayout) -> None:
    """ValueError unless `boxes` is a table of `layout`."""
    require_shape(op, "boxes", boxes, boxes.shape[0], layout.box_bytes)
    if layout.head_dim > MOST_DIM or layout.head_dim % 8:
        raise ValueError(f"{op} takes head dimensions that are multiples of 8 up to {MOST_DIM}, not {layout.head_dim}")


def read_boxes(bounds: Tensor, layout: BoundsLayout) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper corners float32 [n, kv_heads, d], and steps [n, kv_heads], of `bounds` uint8 [n, page_bytes], or
    [n, box_bytes]."""
    codes, grid = read_codes(bounds, layout, 2)
    step, origin = grid.unbind(-1)
    lower, upper = (codes.float() * step[..., None, None] + origin[..., None, None]).unbind(2)
    return lower, upper, step


def read_codes(bounds: Tensor, layout: BoundsLayout, num_rows: int) -> tuple[Tensor, Tensor]:
    """Codes uint8 [n, kv_heads, rows, d] and grid float32 [n, kv_heads, 2 or 4] of pages (2 rows) or sections (3)."""
    n, heads, end = len(bounds), layout.num_kv_heads, layout.num_kv_heads * num_rows * layout.stride
    codes = bounds[:, :end].reshape(n, heads, num_rows, layout.stride)[..., : layout.head_dim]
    num_halves = 2 * (num_rows - 1)
    grid = bounds[:, end : end + heads * num_halves * 2].contiguous().view(torch.float16)
    return codes, grid.reshape(n, heads, num_halves).float()


def _encode_box(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Codes [n, kv_heads, 2, d] of corners [n, kv_heads, d], rounded outward, and step and origin [n, kv_heads, 2]."""
    origin = _half_below(lower.amin(dim=-1)) + 0.0  # no negative zero
    step = _step(upper.amax(dim=-1), origin)
    at = origin[..., None], step[..., None]
    return torch.stack((_code_below(lower, *at), _code_above(upper, *at)), dim=2), torch.stack((step, origin), dim=-1)


def _step(highest: Tensor, origin: Tensor) -> Tensor:
    """The smallest step with which the highest code reaches `highest`."""
    step = _half_above((highest - origin) / MOST) + 0.0  # of zeros of both signs any may be the highest
    # The division has rounded, too.
    return torch.where(step * MOST + origin < highest, _next_half(step, torch.inf), step)


def _code_below(x: Tensor, origin: Tensor, step: Tensor) -> Tensor:
    """The highest code worth no more than `x`."""
    code = ((x - origin) / torch.where(step > 0, step, 1.0)).floor().clamp(0, MOST)
    return torch.where((code > 0) & (code * step + origin > x), code - 1, code).to(torch.uint8)


def _code_above(x: Tensor, origin: Tensor, step: Tensor) -> Tensor:
    """The lowest code worth no less than `x`."""
    code = ((x - origin) / torch.where(step > 0, step, 1.0)).ceil().clamp(0, MOST)
    return torch.where((code < MOST) & (code * step + origin < x), code + 1, code).to(torch.uint8)


def _half_below(x: Tensor) -> Tensor:
    """The largest float16 not above `x`, as float32."""
    half = x.half().float()
    return torch.where(half > x, _next_half(half, -torch.inf), half)


def _half_above(x: Tensor) -> Tensor:
    """The smallest float16 not below `x`, as float32."""
    half = x.half().float()
    return torch.where(half < x, _next_half(half, torch.inf), half)


def _next_half(x: Tensor, towards: float) -> Tensor:
    half = x.half()
    return torch.nextafter(half, torch.full_like(half, towards)).float()


def _assemble(codes: Tensor, grid: Tensor, code_bytes: int, num_bytes: int) -> Tensor:
    """`codes` [n, kv_heads, rows, d] and `grid` [n, kv_heads, ...] as they are kept: uint8 [n, num_bytes]."""
    n, heads, rows, dim = codes.shape
    out = torch.zeros(n, num_bytes, dtype=torch.uint8, device=codes.device)
    out[:, :code_bytes] = pad(codes, (0, code_bytes // (heads * rows) - dim)).flatten(1)
    data = grid.half().contiguous().view(torch.uint8).flatten(1)
    out[:, code_bytes : code_bytes + data.shape[1]] = data
    return out
