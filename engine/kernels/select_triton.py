"""Choosing the pages a query reads, in Triton: every page is scored, and nothing waits for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.bounds import PageBounds
from octavo.engine.kernels.page_scores import SECTION_WIDTH, sum_lanes
from octavo.engine.kernels.scores_triton import exponential, load_codes, load_query, pairwise, query_codes
from octavo.engine.kernels.select import (
    CANDIDATES,
    SHARE_AT_EDGE,
    SelectionLimits,
    SelectionScratch,
    add_shares,
    lay_side_by_side,
)
from octavo.engine.kernels.sketch_triton import sum_sketch
from octavo.engine.kernels.triton_jit import EXACT, constexpr, jit, power_of_two, tensor, tl
from octavo.engine.kv.bounds import LANES, SECTION_PAGES, BoundsLayout

_BLOCK = 16  # pages that one program scores; sections are summed in as many lanes


def select_pages_triton(
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
    """`select_pages_torch` in Triton: the same pages. Ids, numbers of pages and distances are not checked."""
    q = lay_side_by_side(q, layout).contiguous()
    rows, heads, dim = q.shape
    count = len(page_ids)
    scratch.scored = 0 if sections is None else rows * count
    if looked_at is not None:
        looked_at.zero_()
    if not count or not rows:
        none = torch.zeros(rows, limits.cap, dtype=torch.int32, device=q.device)
        return none, torch.zeros_like(num_pages)
    shared = distances.dim() == 1
    before = torch.zeros(rows, heads, device=q.device) if read is None else lay_side_by_side(read, layout).contiguous()
    if sections is None:
        close, candidates = num_pages, torch.arange(count, dtype=torch.int32, device=q.device).repeat(rows, 1)
        highest, near, far = before, torch.ones_like(before), torch.zeros_like(before)
    else:
        scores, estimates = _score_all(q, bounds.boxes, sections, layout, page_ids, distances, cos, sin, scale)
        weights, highest, near, far = _weigh(scores, estimates, before, num_pages, layout, has_read=read is not None)
        close = num_pages.clamp(max=CANDIDATES * limits.cap)
        candidates = _first(weights, close, CANDIDATES * limits.cap)
    if looked_at is not None:
        looked_at[:, : candidates.shape[1]] = candidates
    masses = torch.zeros(rows, candidates.shape[1], heads, device=q.device)
    sum_sketch[(rows, heads, candidates.shape[1])](
        q, *bounds, page_ids, candidates, close, distances, cos, sin, highest, masses, scale, 1 / 3,
        0 if shared else count, candidates.shape[1], shared=shared, layout=layout, group=heads // layout.num_kv_heads,
        half=power_of_two(dim // 2), lanes=LANES, **EXACT,
    )  # fmt: skip
    total = near + torch.maximum(far, sum_lanes(masses.transpose(0, 1)))
    weights = add_shares((masses * (1.0 / total)[:, None]).flatten(0, 1)).view(rows, -1)
    weights[torch.arange(weights.shape[1], device=q.device) >= close[:, None]] = -1.0
    chosen, counts = _cut(weights, (near / total).double().sum(dim=-1), close, limits.mass_target * heads, limits)
    there = torch.arange(limits.cap, device=q.device) < counts[:, None]
    return torch.where(there, candidates.gather(1, chosen.long()), 0), counts


def _score_all(
    q: Tensor,
    boxes: Tensor,
    sections: Tensor,
    layout: BoundsLayout,
    page_ids: Tensor,
    distances: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Scaled scores of pages float32 [rows, p, heads], and of whole sections [rows, p / 16, heads]."""
    (rows, heads, dim), count = q.shape, len(page_ids)
    whole, shared = count // SECTION_PAGES, distances.dim() == 1
    scores = torch.empty(rows, count, heads, device=q.device)
    estimates = torch.empty(rows, max(1, whole), heads, device=q.device)
    fixed = {"layout": layout, "group": heads // layout.num_kv_heads, "half": power_of_two(dim // 2), "block": _BLOCK}
    for table, out, number, is_section in ((boxes, scores, count, False), (sections, estimates, whole, True)):
        if number:
            _score[(rows, heads, -(-number // _BLOCK))](
                q, table, page_ids, distances, cos, sin, out, scale, SECTION_WIDTH, number, 0 if shared else count,
                shared=shared, section_pages=SECTION_PAGES if is_section else 0, **fixed, **EXACT,
            )  # fmt: skip
    return scores, estimates


def _first(weights: Tensor, number: Tensor, most: int) -> Tensor:
    """For every row the indices, ascending, of so many of its heaviest pages, at `most` of any: int32 [rows, n]."""
    last = weights.shape[1]
    heaviest = torch.sort(weights, dim=-1, descending=True, stable=True).indices[:, :most]
    taken = torch.arange(heaviest.shape[1], device=weights.device) < number[:, None]
    indices = torch.where(taken, heaviest, last).sort(dim=-1).values
    return torch.where(indices == last, 0, indices).int()


def _weigh(
    scores: Tensor, estimates: Tensor, read: Tensor, num_pages: Tensor, layout: BoundsLayout, *, has_read: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights float32 [rows, pages], -1 beyond a row's pages; and float32 [rows, heads] the highest score, and relative
    to it the mass of what is `read` anyway and of all far pages."""
    rows, count, heads = scores.shape
    highest, far, near = (torch.empty(rows, heads, device=scores.device) for _ in range(3))
    weights = torch.empty(rows, count, device=scores.device)
    tokens = SHARE_AT_EDGE * layout.page_size
    _sum_heads[(rows, heads)](
        scores, estimates, read, num_pages, highest, far, near, tokens, count, estimates.shape[1],
        has_read=has_read, section_pages=SECTION_PAGES, lanes=_BLOCK, **EXACT,
    )  # fmt: skip
    _weigh_pages[(rows, -(-count // _BLOCK))](
        scores, highest, near, far, num_pages, weights, tokens, count, heads=heads, block=_BLOCK, **EXACT
    )
    return weights, highest, near, far


def _cut(
    weights: Tensor, covered: Tensor, num_pages: Tensor, target: float, limits: SelectionLimits
) -> tuple[Tensor, Tensor]:
    """For every row the indices, ascending, of the heaviest pages that the limits allow, padded with 0."""
    order = torch.sort(weights, dim=-1, descending=True, stable=True)
    most = num_pages.clamp(max=limits.cap)
    rank = torch.arange(min(limits.cap, weights.shape[1]), device=weights.device)
    sums = order.values[:, : len(rank)].double().cumsum(-1) + covered[:, None]
    needed = ((sums < target) & (rank < most[:, None])).sum(dim=-1) + 1
    counts = torch.minimum(needed.clamp(min=limits.floor), most).int()
    taken = rank < counts[:, None]
    last = weights.shape[1]
    chosen = torch.where(taken, order.indices[:, : len(rank)], last).sort(dim=-1).values
    out = torch.zeros(len(weights), limits.cap, dtype=torch.int32, device=weights.device)
    out[:, : len(rank)] = torch.where(chosen == last, 0, chosen)
    return out, counts


@jit
def _score(
    q: tensor,
    table: tensor,
    page_ids: tensor,
    distances: tensor,
    cos: tensor,
    sin: tensor,
    out: tensor,
    scale: tensor,
    section_width: tensor,
    number: tensor,
    distance_stride: tensor,
    shared: constexpr,
    section_pages: constexpr,
    layout: constexpr,
    group: constexpr,
    half: constexpr,
    block: constexpr,
) -> None:
    """Scaled scores of a block of pages, or where `section_pages` is not 0 of sections, for one query head."""
    dim: constexpr = layout.head_dim
    row, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    item, pair = tl.program_id(2) * block + tl.arange(0, block), tl.arange(0, half)
    there, is_pair = item < number, pair < dim // 2
    first, second, factor, unit = load_query(q + (row * heads + head) * dim, pair, is_pair, dim, scale)
    # A section stands where its middle page does.
    page = item if section_pages == 0 else item * section_pages + section_pages // 2
    at = tl.zeros_like(item) if shared else row * distance_stride + page
    angles = tl.load(distances + at, mask=there, other=0).to(tl.int64)[:, None] * (dim // 2) + pair[None, :]
    seen = there[:, None] & is_pair[None, :]
    c, s = tl.load(cos + angles, mask=seen, other=0.0), tl.load(sin + angles, mask=seen, other=0.0)
    codes_first = query_codes(first[None, :] * c - second[None, :] * s, factor)
    codes_second = query_codes(second[None, :] * c + first[None, :] * s, factor)
    kv_head = head // group
    if section_pages == 0:
        box = table + tl.load(page_ids + item, mask=there, other=0).to(tl.int64) * layout.box_bytes
        codes = box + kv_head * 2 * layout.stride
        grid = (box + layout.page_codes).to(tl.pointer_type(tl.float16)) + kv_head * 2
    else:
        box = table + item.to(tl.int64) * layout.section_bytes
        codes = box + kv_head * 3 * layout.stride
        grid = (box + layout.section_codes).to(tl.pointer_type(tl.float16)) + kv_head * 4
    codes = codes[:, None] + pair[None, :]
    lower_first, lower_second = load_codes(codes, seen), load_codes(codes + dim // 2, seen)
    upper = codes + layout.stride
    upper_first, upper_second = load_codes(upper, seen), load_codes(upper + dim // 2, seen)
    if section_pages == 0:
        width_first, width_second = upper_first - lower_first, upper_second - lower_second
    else:
        widths = upper + layout.stride
        width_first, width_second = load_codes(widths, seen), load_codes(widths + dim // 2, seen)
    centre = codes_first * (lower_first + upper_first) + codes_second * (lower_second + upper_second)
    at_centre = tl.sum(centre, 1).to(tl.float32)
    squares = tl.sum(_square(codes_first, width_first) + _square(codes_second, width_second), 1).to(tl.float32)
    length, total = tl.sqrt_rn(squares), tl.sum(codes_first + codes_second, 1).to(tl.float32)
    step = tl.load(grid, mask=there, other=0.0).to(tl.float32)
    origin = tl.load(grid + 1, mask=there, other=0.0).to(tl.float32)
    if section_pages == 0:
        score = unit * (step * (0.5 * at_centre + 8.0 * length) + origin * total)
    else:
        width_step = tl.load(grid + 2, mask=there, other=0.0).to(tl.float32)
        score = unit * ((step * (0.5 * at_centre) + origin * total) + width_step * (8.0 * section_width * length))
    tl.store(out + (row.to(tl.int64) * number + item) * heads + head, score, mask=there)


@jit
def _square(codes: tensor, widths: tensor) -> tensor:
    product = (tl.abs(codes) * widths + 8) >> 4
    return product * product


@jit
def _sum_heads(
    scores: tensor,
    estimates: tensor,
    read: tensor,
    num_pages: tensor,
    highest_out: tensor,
    far_out: tensor,
    near_out: tensor,
    tokens: tensor,
    count: tensor,
    num_estimates: tensor,
    has_read: constexpr,
    section_pages: constexpr,
    lanes: constexpr,
) -> None:
    """Of one query head of one row: the highest score, and the mass of all far pages and of what is read anyway."""
    row, head, heads = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    lane = tl.arange(0, lanes)
    pages = tl.load(num_pages + row)
    whole = pages // section_pages
    number = whole * section_pages + lane  # pages of no whole section are fewer than lanes
    rest_there = number < pages
    rest = tl.load(scores + (row * count + number) * heads + head, mask=rest_there, other=-float("inf"))
    highest = tl.max(rest, 0)
    of_row = estimates + row * num_estimates * heads + head
    for begin in range(0, whole, lanes):
        there = begin + lane < whole
        some = tl.load(of_row + (begin + lane) * heads, mask=there, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(some, 0))
    at = row * heads + head
    score_read = tl.load(read + at)
    if has_read:
        highest = tl.maximum(highest, score_read)
    sums = tl.zeros((lanes,), tl.float32)
    for begin in range(0, whole, lanes):
        there = begin + lane < whole
        some = tl.load(of_row + (begin + lane) * heads, mask=there, other=0.0)
        sums += tl.where(there, exponential(some - highest), 0.0)
    remaining = tl.where(rest_there, exponential(tl.where(rest_there, rest, 0.0) - highest), 0.0)
    far = section_pages * pairwise(sums, lanes) + pairwise(remaining, lanes)
    near = exponential(score_read - highest) if has_read else tl.zeros_like(highest)
    tl.store(highest_out + at, highest)
    tl.store(near_out + at, near)
    tl.store(far_out + at, tokens * far)


@jit
def _weigh_pages(
    scores: tensor,
    highest: tensor,
    near: tensor,
    far: tensor,
    num_pages: tensor,
    weights: tensor,
    tokens: tensor,
    count: tensor,
    heads: constexpr,
    block: constexpr,
) -> None:
    """Weights of a block of pages of one row, -1 for those that it may not read."""
    row = tl.program_id(0).to(tl.int64)
    page = tl.program_id(1) * block + tl.arange(0, block)
    there = page < tl.load(num_pages + row)
    weight = tl.zeros((block,), tl.float32)
    for head in range(heads):
        at = row * heads + head
        score = tl.load(scores + (row * count + page) * heads + head, mask=there, other=0.0)
        mass = tl.load(near + at) + tl.load(far + at)
        part = tl.div_rn(tl.zeros_like(mass) + tokens, mass)
        # An estimate may be far too low; no page takes more than all of a head's attention.
        weight += tl.minimum(exponential(score - tl.load(highest + at)) * part, 1.0)
    tl.store(weights + row * count + page, tl.where(there, weight, -1.0), mask=page < count)
