"""What a query in codes of 8 bits scores pages and sections by their bounds, and keys by their sketches.

Sums are of integers, and what follows is computed operation by operation in the order that the C and the Triton kernels
keep, too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.bounds import PageBounds, read_codes, read_sketches
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.model.rope import rotate

SECTION_WIDTH = 0.9
"""What is taken of a section's largest widths to estimate its pages' scores on average; measured."""

_THIRD = 1 / 3
_MOST_CODE = 127.0
_LANES = 16


class QueryCodes:
    """One row's queries in codes of 8 bits, at the distance of every page or at the one they share."""

    def __init__(self, q: Tensor, cos: Tensor, sin: Tensor, scale: float, kv_heads: int) -> None:
        first, second = q.chunk(2, dim=-1)  # [heads, d / 2]
        reach = torch.sqrt(first * first + second * second).amax(dim=-1)  # of any rotation
        rotated = rotate(q, cos[:, None], sin[:, None])  # [1 or p, heads, d]
        factor = torch.where(reach > 0, _MOST_CODE / reach, 0.0)
        codes = torch.round(rotated * factor[:, None]).clamp(-_MOST_CODE, _MOST_CODE).int()
        self._codes = codes.reshape(len(codes), kv_heads, -1, q.shape[-1])  # [1 or p, kv_heads, group, d]
        self._unit = (reach / _MOST_CODE * scale).reshape(kv_heads, -1)

    def score_pages(self, codes: Tensor, grid: Tensor) -> Tensor:
        """Scaled scores of pages by their codes [p, kv_heads, 2, d] and grid: float32 [p, heads]."""
        lower, upper = codes.int().unbind(2)
        step, origin = grid[..., None].unbind(2)
        at_centre, length, total = _sums(self._codes, lower + upper, upper - lower)
        return (self._unit * (step * (0.5 * at_centre + 8 * length) + origin * total)).flatten(1)

    def sum_tokens(self, bounds: PageBounds, layout: BoundsLayout, pages: Tensor, highest: Tensor) -> Tensor:
        """Of `pages` [n], with these `bounds`, the sums of e^(score - highest) over their keys by the sketches: float32
        [n, heads]."""
        codes, grid = read_codes(bounds.boxes, layout, 2)
        lower, upper = codes.int().unbind(2)
        step, origin = (x[..., None] for x in grid[..., None].unbind(2))
        query = (self._codes if len(self._codes) == 1 else self._codes[pages])[:, :, :, None]
        lowest = (query * lower[:, :, None, None]).sum(dim=-1)  # [n, kv_heads, group, 1]
        thirds = read_sketches(bounds.sketches, layout)[:, :, None]
        inside = (query * (upper - lower)[:, :, None, None] * thirds).sum(dim=-1)
        total = query.sum(dim=-1).float()
        sums = (3 * lowest + inside).float() * _THIRD
        scores = (self._unit[..., None] * (step * sums + origin * total)).flatten(1, 2)  # [n, heads, tokens]
        return sum_exponentials((scores - highest[:, None]).permute(2, 0, 1))

    def score_sections(self, codes: Tensor, grid: Tensor) -> Tensor:
        """What pages of sections score on average, about: float32 [sections, heads]."""
        lower, upper, widths = codes.int().unbind(2)
        step, origin, width_step, _ = grid[..., None].unbind(2)
        # A section stands where its middle page does.
        of_section = self._codes if len(self._codes) == 1 else self._codes[SECTION_PAGES // 2 :: SECTION_PAGES]
        at_centre, length, total = _sums(of_section[: len(codes)], lower + upper, widths)
        centre = step * (0.5 * at_centre) + origin * total
        return (self._unit * (centre + width_step * (8 * SECTION_WIDTH * length))).flatten(1)


def _sums(codes: Tensor, ends: Tensor, widths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For `codes` [1 or n, kv_heads, group, d] and a box's codes [n, kv_heads, d], float32 [n, kv_heads, group] each:
    codes times ends; the root of the sum of (codes times widths / 16) squared; the sum of codes.

    The products of codes and widths are rounded to integers, so that the sum is exact.
    """
    products = ((codes.abs() * widths[:, :, None] + 8) >> 4).square()
    length = products.sum(dim=-1).float().sqrt()
    return (codes * ends[:, :, None]).sum(dim=-1).float(), length, codes.sum(dim=-1).float()


def sum_exponentials(x: Tensor) -> Tensor:
    """Sums of e^x over the first dimension, as `sum_lanes` adds."""
    return sum_lanes(exponential(x))


def sum_lanes(x: Tensor) -> Tensor:
    """Sums over the first dimension, in the order of 16 lanes that are added up pairwise at the end."""
    n = len(x)
    padded = torch.zeros(-(-n // _LANES) * _LANES, *x.shape[1:], device=x.device)
    padded[:n] = x
    lanes = torch.zeros(_LANES, *x.shape[1:], device=x.device)
    for first in range(0, len(padded), _LANES):
        lanes += padded[first : first + _LANES]
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def exponential(x: Tensor) -> Tensor:
    """e^x for x clamped to -87 .. 80, by the polynomial of Cephes' expf, every operation rounded for itself."""
    x = x.clamp(-87.0, 80.0)
    n = torch.round(x * 1.44269504088896341)
    r = (x - n * 0.693359375) + n * 2.12194440e-4
    p = torch.full_like(r, 1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + factor
    return torch.ldexp(p * (r * r) + (r + 1), n)
