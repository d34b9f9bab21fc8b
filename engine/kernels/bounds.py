"""The boxes around the keys of pages, and of sections of sixteen pages."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.quantize import read_keys
from octavo.engine.kv.bounds import MOST, SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import PageLayout


def page_bounds_torch(encoded: Tensor, pages: PageLayout, layout: BoundsLayout) -> Tensor:
    """The bounds of `encoded` pages uint8 [n, slot_bytes]: uint8 [n, layout.page_bytes].

    Every key, as it decodes, lies in its box as `read_boxes` gives it back.
    """
    n, heads, boxes, dim = len(encoded), layout.num_kv_heads, layout.num_boxes, layout.head_dim
    keys = read_keys(encoded, pages).reshape(n, heads, boxes, -1, dim)
    lower, upper = keys.amin(dim=3), keys.amax(dim=3)  # [n, heads, boxes, d]
    origin = _half_below(lower.amin(dim=-1, keepdim=True))
    highest = upper.amax(dim=-1, keepdim=True)
    step = _half_above((highest - origin) / MOST)
    # The division rounds, too.
    step = torch.where(step * MOST + origin < highest, _next_half(step.half(), torch.inf).float(), step)
    grid = origin, step, torch.where(step > 0, step, 1.0)
    codes = torch.stack((_code_below(lower, *grid), _code_above(upper, *grid)), dim=3)
    out = torch.zeros(n, layout.page_bytes, dtype=torch.uint8, device=encoded.device)
    out[:, : layout.code_bytes] = codes.to(torch.uint8).flatten(1)
    halves = torch.cat((step, origin), dim=-1).half().contiguous().view(torch.uint8).flatten(1)
    out[:, layout.code_bytes : layout.code_bytes + halves.shape[1]] = halves
    return out


def read_boxes(bounds: Tensor, layout: BoundsLayout) -> tuple[Tensor, Tensor]:
    """Lower and upper corners of pages' `bounds` uint8 [n, page_bytes]: float32 [n, kv_heads, num_boxes, d] each."""
    n, shape = len(bounds), (layout.num_kv_heads, layout.num_boxes, 2)
    codes = bounds[:, : layout.code_bytes].reshape(n, *shape, layout.head_dim)
    grid_bytes = layout.num_kv_heads * layout.num_boxes * 4
    grid = bounds[:, layout.code_bytes : layout.code_bytes + grid_bytes].contiguous().view(torch.float16)
    step, origin = grid.view(n, *shape).float().unbind(-1)
    corners = codes.float() * step[..., None, None] + origin[..., None, None]
    lower, upper = corners.unbind(3)
    return lower, upper


def section_bounds_torch(bounds: Tensor, layout: BoundsLayout, page_ids: Tensor) -> Tensor:
    """Bounds of the sections of a sequence's pages: uint8 [ceil(p / 16), section_bytes].

    `bounds` uint8 [capacity, page_bytes] is the table of one layer, `page_ids` int32 [p] the pages in order; the last
    section may be of fewer than 16.
    """
    lower, upper = read_boxes(bounds[page_ids.long()], layout)
    first, second = torch.maximum(lower.abs(), upper.abs()).chunk(2, dim=-1)
    norms = torch.hypot(first, second).amax(dim=2)  # [p, heads, d / 2]
    parts = []
    for begin in range(0, len(page_ids), SECTION_PAGES):
        pages = slice(begin, begin + SECTION_PAGES)
        parts.append(torch.cat((norms[pages].amax(0), lower[pages].amin((0, 2)), upper[pages].amax((0, 2))), dim=-1))
    if not parts:
        return torch.empty(0, layout.section_bytes, dtype=torch.uint8, device=bounds.device)
    return torch.stack(parts).contiguous().view(torch.uint8).flatten(1)


def _half_below(x: Tensor) -> Tensor:
    """The largest float16 not above `x`, as float32."""
    half = x.half()
    return torch.where(half.float() > x, _next_half(half, -torch.inf), half).float()


def _half_above(x: Tensor) -> Tensor:
    """The smallest float16 not below `x`, as float32."""
    half = x.half()
    return torch.where(half.float() < x, _next_half(half, torch.inf), half).float()


def _next_half(x: Tensor, towards: float) -> Tensor:
    return torch.nextafter(x, torch.full_like(x, towards))


def _code_below(x: Tensor, origin: Tensor, step: Tensor, divisor: Tensor) -> Tensor:
    code = ((x - origin) / divisor).floor().clamp(0, MOST)
    return torch.where((code > 0) & (code * step + origin > x), code - 1, code)


def _code_above(x: Tensor, origin: Tensor, step: Tensor, divisor: Tensor) -> Tensor:
    code = ((x - origin) / divisor).ceil().clamp(0, MOST)
    return torch.where((code < MOST) & (code * step + origin < x), code + 1, code)
