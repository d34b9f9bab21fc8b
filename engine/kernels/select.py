"""Choosing the pages a query reads, by the boxes around their keys.

A page's score is the highest that a key could have in the ellipsoid inscribed in the box: the centre's score, and the
length of the half-widths weighted with the query. Measured, that foretells attention better than the box itself,
whose corners no key comes near (tests/bench/results.md). The best of them are looked at again, key by key, by the
sketches of these. Sums are of integers, and what follows is computed in the same order everywhere, so that every
implementation chooses the same pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from octavo.engine.kernels.bounds import PageBounds, read_codes, require_boxes, sizes
from octavo.engine.kernels.checks import require, require_angles, require_shape
from octavo.engine.kernels.page_scores import SECTION_WIDTH, QueryCodes, exponential, sum_exponentials, sum_lanes
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

SHARE_AT_EDGE = 0.1
"""A page's mass, in tokens at its score, over its number of tokens: measured, with a standard deviation of e."""

CANDIDATES = 4
"""Pages of which the keys' sketches are looked at, for each page that may be chosen."""

_MOST_HEADS = 512  # a constant of the C code


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """How many pages are read beside those that are read always: until `mass_target` of a query's attention is
    covered, as estimated, but never fewer than `floor` nor more than `cap`."""

    floor: int
    cap: int
    mass_target: float


class SelectionScratch:
    """Memory of `select_pages` that one call leaves to the next. One thread uses it at a time.

    `scored` is how many pages the last call scored, of all rows; branch and bound left out the others.
    """

    def __init__(self) -> None:
        self.scored = 0
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def reserve(self, num_bytes: int) -> Tensor:
        """At least so many bytes, with any contents."""
        if len(self._bytes) < num_bytes:
            self._bytes = torch.empty(max(num_bytes, 2 * len(self._bytes)), dtype=torch.uint8)
        return self._bytes


def select_pages_torch(
    q: Tensor,
    bounds: PageBounds,
    sections: Tensor | None,
    layout: BoundsLayout,
    page_ids: Tensor,
    num_pages: Tensor,
    distances: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
    read: Tensor | None,
    limits: SelectionLimits,
    scratch: SelectionScratch,
    looked_at: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Which of a sequence's far pages each row reads: int32 [rows, cap] and how many int32 [rows].

    A row is one position, or several that choose together (a page of queries): `q` float32 [rows, queries, heads, d],
    not rotated to the pages. Row r may read the first `num_pages[r]` (int32 [rows]) of `page_ids`
    int32 [p]; the result are indices into `page_ids`, ascending, padded with 0. `distances` is int32 [rows, p],
    position minus page start, or [1], one for all. `bounds` are the tables [capacity, ...] of one layer, `sections`
    uint8 [ceil(p / 16), section_bytes] are those of `page_ids`, or None: see below. `read` float32
    [rows, queries, heads] is the log-sum-exp of the scaled scores of the tokens that are read anyway, None where there
    are none.

    A page's weight is the sum, over queries and heads, of its share in the head's attention, as estimated: its mass
    over that of everything, of which whole sections are estimated by their bounds. Of the heaviest, CANDIDATES times
    as many as may be chosen, the masses are then estimated by the sketches of their keys; they stand for the mass of
    all far pages where they come to more. The heaviest of these pages are taken; of equal ones the first. `looked_at`
    int32 [rows, CANDIDATES * cap], if there is one, receives the indices of the pages that were looked at so,
    ascending, padded with 0.

    Without `sections` no box is weighed: all pages are looked at by the sketches of their keys, which stand for all far
    pages. They are at most CANDIDATES * cap + 16, `read` is there, and `looked_at` is not.
    """
    q = lay_side_by_side(q, layout)
    read = None if read is None else lay_side_by_side(read, layout)
    out = torch.zeros(len(q), limits.cap, dtype=torch.int32, device=q.device)
    counts = torch.zeros(len(q), dtype=torch.int32, device=q.device)
    scratch.scored = 0
    if looked_at is not None:
        looked_at.zero_()
    for row, count in enumerate(num_pages.tolist()):
        if not count:
            continue
        angles = (distances if distances.dim() == 1 else distances[row, :count]).long()
        query = QueryCodes(q[row], cos[angles], sin[angles], scale, layout.num_kv_heads)
        before = None if read is None else read[row]
        if sections is None:
            assert before is not None
            candidates = torch.arange(count, device=q.device)
            sums = _Sums(before, torch.ones_like(before), torch.zeros_like(before))
        else:
            whole = count // SECTION_PAGES
            estimates = query.score_sections(*read_codes(sections[:whole], layout, 3))
            scores = query.score_pages(*read_codes(bounds.boxes[page_ids[:count].long()], layout, 2))
            weights, sums = _weigh(estimates, scores, before, SHARE_AT_EDGE * layout.page_size)
            candidates = _heaviest(weights, CANDIDATES * limits.cap)
            scratch.scored += count
        if looked_at is not None:
            looked_at[row, : len(candidates)] = candidates.int()
        of_candidates = PageBounds(*(table[page_ids[candidates].long()] for table in bounds))
        masses = query.sum_tokens(of_candidates, layout, candidates, sums.highest)
        weights, covered = _weigh_closely(masses, sums)
        chosen = candidates[_cut(weights, covered, limits.mass_target * q.shape[1], limits)]
        out[row, : len(chosen)] = chosen.int()
        counts[row] = len(chosen)
    return out, counts


def select_pages_native(
    ops: Ops,
    q: Tensor,
    bounds: PageBounds,
    sections: Tensor | None,
    layout: BoundsLayout,
    page_ids: Tensor,
    num_pages: Tensor,
    distances: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
    read: Tensor | None,
    limits: SelectionLimits,
    scratch: SelectionScratch,
    looked_at: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`select_pages_torch` in C, on the CPU, by branch and bound over sections: the same pages.

    ValueError for a page, a number of pages or a distance out of its range.
    """
    op = "select_pages"
    q = lay_side_by_side(q, layout).contiguous()
    read = None if read is None else lay_side_by_side(read, layout).contiguous()
    rows, heads, dim = q.shape
    num_ids = page_ids.shape[0]
    require_angles(op, cos, sin, dim)
    require_shape(op, "num_pages", num_pages, rows)
    _require_bounds(op, bounds, sections, layout, num_ids)
    if looked_at is not None:
        require(op, torch.int32, looked_at)
        require_shape(op, "looked_at", looked_at, rows, CANDIDATES * limits.cap)
    _require_heads(op, q, read, layout)
    require(op, torch.int32, page_ids, num_pages, distances)
    if distances.shape not in ((1,), (rows, num_ids)):
        raise ValueError(f"{op} takes distances [1] or {[rows, num_ids]}, not {list(distances.shape)}")
    if limits.cap < 1:
        raise ValueError(f"{op} takes a cap of at least one page, not {limits.cap}")
    out = torch.empty(rows, limits.cap, dtype=torch.int32)
    counts = torch.empty(rows, dtype=torch.int32)
    selection = *sizes(layout), heads, num_ids, limits.cap
    scratch.scored = ops.select_pages(
        *selection,
        q.data_ptr(),
        rows,
        *(bounds.boxes.data_ptr(), bounds.sketches.data_ptr(), len(bounds.boxes)),
        0 if sections is None else sections.data_ptr(),
        sections is None,
        page_ids.data_ptr(),
        num_pages.data_ptr(),
        distances.data_ptr(),
        distances.dim() == 1,
        cos.data_ptr(),
        sin.data_ptr(),
        cos.shape[0],
        None if read is None else read.data_ptr(),
        scale,
        *selection_numbers(layout, limits, heads),
        limits.floor,
        scratch.reserve(rows * ops.selection_bytes(*selection)).data_ptr(),
        out.data_ptr(),
        counts.data_ptr(),
        None if looked_at is None else looked_at.data_ptr(),
    )
    return out, counts


def _require_bounds(op: str, bounds: PageBounds, sections: Tensor | None, layout: BoundsLayout, num_ids: int) -> None:
    require(op, torch.uint8, *bounds)
    require_boxes(op, bounds.boxes, layout)
    require_shape(op, "sketches", bounds.sketches, len(bounds.boxes), layout.sketch_bytes)
    if sections is None:
        return
    require(op, torch.uint8, sections)
    if sections.shape[1:] != (layout.section_bytes,) or sections.shape[0] < num_ids // SECTION_PAGES:
        raise ValueError(
            f"{op} takes {num_ids // SECTION_PAGES} sections [{layout.section_bytes}], not {list(sections.shape)}"
        )


def _require_heads(op: str, q: Tensor, read: Tensor | None, layout: BoundsLayout) -> None:
    rows, heads = q.shape[:2]
    require(op, torch.float32, q)
    require_shape(op, "q", q, rows, heads, layout.head_dim)
    if heads % layout.num_kv_heads or not 0 < heads <= _MOST_HEADS:
        raise ValueError(f"{op} takes a multiple of {layout.num_kv_heads} query heads up to {_MOST_HEADS}, not {heads}")
    if read is not None:
        require(op, torch.float32, read)
        require_shape(op, "read", read, rows, heads)


def lay_side_by_side(x: Tensor, layout: BoundsLayout) -> Tensor:
    """The heads of all queries of a row as those of one, by KV head: of [rows, queries, heads, ...] [rows, queries *
    heads, ...]."""
    if x.shape[1] == 1:
        return x[:, 0]
    rows, queries, heads = x.shape[:3]
    split = x.reshape(rows, queries, layout.num_kv_heads, heads // layout.num_kv_heads, *x.shape[3:])
    return split.transpose(1, 2).flatten(1, 3)


def selection_numbers(layout: BoundsLayout, limits: SelectionLimits, heads: int) -> tuple[float, float, float]:
    """A page's mass in tokens at its score, what is taken of a section's widths, and the mass to be covered, as the C
    code takes them."""
    return SHARE_AT_EDGE * layout.page_size, SECTION_WIDTH, limits.mass_target * heads


class _Sums(NamedTuple):
    """Of each head, float32 [heads]: the highest score, and relative to it the mass of what is read anyway and of all
    far pages."""

    highest: Tensor
    near: Tensor
    far: Tensor


def _weigh(estimates: Tensor, scores: Tensor, read: Tensor | None, tokens: float) -> tuple[Tensor, _Sums]:
    """Weights float32 [p] of pages with `scores` [p, heads], beside what is `read` [heads] anyway.

    Scores of pages in whole sections count by their sections' `estimates` [sections, heads]; `tokens` is a page's mass
    in tokens.
    """
    rest = scores[len(estimates) * SECTION_PAGES :]
    parts = [estimates, rest] if read is None else [estimates, rest, read[None]]
    highest = torch.cat(parts).amax(dim=0)
    far = tokens * (SECTION_PAGES * sum_exponentials(estimates - highest) + sum_exponentials(rest - highest))
    near = torch.zeros_like(far) if read is None else exponential(read - highest)
    return add_shares(exponential(scores - highest) * (tokens / (near + far))), _Sums(highest, near, far)


def _weigh_closely(masses: Tensor, sums: _Sums) -> tuple[Tensor, float]:
    """Weights float32 [n] of pages with `masses` [n, heads], and the weight of what is read anyway."""
    total = sums.near + torch.maximum(sums.far, sum_lanes(masses))
    return add_shares(masses * (1.0 / total)), float((sums.near / total).double().sum())


def add_shares(shares: Tensor) -> Tensor:
    """Weights [p] of shares [p, heads], by one head after the other."""
    weights = torch.zeros_like(shares[:, 0])
    # An estimate may be far too low; no page takes more than all of a head's attention.
    for head in shares.clamp(max=1.0).unbind(1):
        weights += head
    return weights


def _heaviest(weights: Tensor, count: int) -> Tensor:
    """Indices, ascending; of equal weights the first."""
    return torch.sort(weights, descending=True, stable=True).indices[:count].sort().values


def _cut(weights: Tensor, covered: float, target: float, limits: SelectionLimits) -> Tensor:
    """Indices, ascending, of the heaviest pages that the limits allow."""
    order = torch.sort(weights, descending=True, stable=True)
    most = min(limits.cap, len(weights))
    sums = order.values[:most].double().cumsum(0) + covered
    needed = int((sums < target).sum()) + 1
    return order.indices[: min(max(needed, limits.floor), most)].sort().values
