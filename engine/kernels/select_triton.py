"""Choosing the pages a query reads, in Triton: every page is scored, and nothing waits for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.select import SECTION_WIDTH, SHARE_AT_EDGE, SelectionLimits, SelectionScratch
from octavo.engine.kernels.triton_jit import EXACT, constexpr, jit, power_of_two, tensor, tl
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout

_BLOCK = 16  # pages that one program scores; sections are summed in as many lanes


def select_pages_triton(
    q: Tensor,
    bounds: Tensor,
    sections: Tensor,
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
) -> tuple[Tensor, Tensor]:
    """`select_pages_torch` in Triton: the same pages. Ids, numbers of pages and distances are not checked."""
    q = q.mean(dim=1)
    rows, heads, dim = q.shape
    count = len(page_ids)
    scratch.scored = rows * count
    if not count or not rows:
        none = torch.zeros(rows, limits.cap, dtype=torch.int32, device=q.device)
        return none, torch.zeros_like(num_pages)
    whole = count // SECTION_PAGES
    scores = torch.empty(rows, count, heads, device=q.device)
    estimates = torch.empty(rows, max(1, whole), heads, device=q.device)
    shared = distances.dim() == 1
    fixed = {"layout": layout, "group": heads // layout.num_kv_heads, "half": power_of_two(dim // 2), "block": _BLOCK}
    for table, out, number, is_section in ((bounds, scores, count, False), (sections, estimates, whole, True)):
        if number:
            _score[(rows, heads, -(-number // _BLOCK))](
                q, table, page_ids, distances, cos, sin, out, scale, SECTION_WIDTH, number, 0 if shared else count,
                shared=shared, section_pages=SECTION_PAGES if is_section else 0, **fixed, **EXACT,
            )  # fmt: skip
    near = torch.zeros(rows, heads, device=q.device) if read is None else read.mean(dim=1).contiguous()
    weights, covered = _weigh(scores, estimates, near, num_pages, layout, has_read=read is not None)
    return _cut(weights, covered, num_pages, limits.mass_target * heads, limits)


def _weigh(
    scores: Tensor, estimates: Tensor, read: Tensor, num_pages: Tensor, layout: BoundsLayout, *, has_read: bool
) -> tuple[Tensor, Tensor]:
    """Weights float32 [rows, pages], -1 beyond a row's pages, and what is covered by `read`, float64 [rows]."""
    rows, count, heads = scores.shape
    highest, total, near = (torch.empty(rows, heads, device=scores.device) for _ in range(3))
    weights = torch.empty(rows, count, device=scores.device)
    tokens = SHARE_AT_EDGE * layout.page_size
    _sum_heads[(rows, heads)](
        scores, estimates, read, num_pages, highest, total, near, tokens, count, estimates.shape[1],
        has_read=has_read, section_pages=SECTION_PAGES, lanes=_BLOCK, **EXACT,
    )  # fmt: skip
    _weigh_pages[(rows, -(-count // _BLOCK))](
        scores, highest, total, num_pages, weights, tokens, count, heads=heads, block=_BLOCK, **EXACT
    )
    return weights, (near / total).double().sum(dim=-1)


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
    query = q + (row * heads + head) * dim + pair
    first = tl.load(query, mask=is_pair, other=0.0)
    second = tl.load(query + dim // 2, mask=is_pair, other=0.0)
    reach = tl.max(tl.sqrt_rn(first * first + second * second), 0)
    most = tl.zeros_like(reach) + 127.0
    factor = tl.where(reach > 0, tl.div_rn(most, tl.where(reach > 0, reach, 1.0)), 0.0)
    unit = tl.div_rn(reach, most) * scale
    # A section stands where its middle page does.
    page = item if section_pages == 0 else item * section_pages + section_pages // 2
    at = tl.zeros_like(item) if shared else row * distance_stride + page
    angles = tl.load(distances + at, mask=there, other=0).to(tl.int64)[:, None] * (dim // 2) + pair[None, :]
    seen = there[:, None] & is_pair[None, :]
    c, s = tl.load(cos + angles, mask=seen, other=0.0), tl.load(sin + angles, mask=seen, other=0.0)
    codes_first = _query_codes(first[None, :] * c - second[None, :] * s, factor)
    codes_second = _query_codes(second[None, :] * c + first[None, :] * s, factor)
    kv_head = head // group
    if section_pages == 0:
        box = table + tl.load(page_ids + item, mask=there, other=0).to(tl.int64) * layout.page_bytes
        codes = box + kv_head * 2 * layout.stride
        grid = (box + layout.page_codes).to(tl.pointer_type(tl.float16)) + kv_head * 2
    else:
        box = table + item.to(tl.int64) * layout.section_bytes
        codes = box + kv_head * 3 * layout.stride
        grid = (box + layout.section_codes).to(tl.pointer_type(tl.float16)) + kv_head * 4
    codes = codes[:, None] + pair[None, :]
    lower_first, lower_second = _load_codes(codes, seen), _load_codes(codes + dim // 2, seen)
    upper = codes + layout.stride
    upper_first, upper_second = _load_codes(upper, seen), _load_codes(upper + dim // 2, seen)
    if section_pages == 0:
        width_first, width_second = upper_first - lower_first, upper_second - lower_second
    else:
        widths = upper + layout.stride
        width_first, width_second = _load_codes(widths, seen), _load_codes(widths + dim // 2, seen)
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
def _query_codes(x: tensor, factor: tensor) -> tensor:
    """Whole numbers from -127 to 127, rounded to even as torch rounds them."""
    steps = (x * factor + 12582912.0) - 12582912.0
    return tl.minimum(tl.maximum(steps, -127.0), 127.0).to(tl.int32)


@jit
def _load_codes(codes: tensor, there: tensor) -> tensor:
    return tl.load(codes, mask=there, other=0).to(tl.int32)


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
    total_out: tensor,
    near_out: tensor,
    tokens: tensor,
    count: tensor,
    num_estimates: tensor,
    has_read: constexpr,
    section_pages: constexpr,
    lanes: constexpr,
) -> None:
    """Of one query head of one row: the highest score, and the mass of everything and of what is read anyway."""
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
        sums += tl.where(there, _exp(some - highest), 0.0)
    remaining = tl.where(rest_there, _exp(tl.where(rest_there, rest, 0.0) - highest), 0.0)
    far = section_pages * _pairwise(sums, lanes) + _pairwise(remaining, lanes)
    near = _exp(score_read - highest) if has_read else tl.zeros_like(highest)
    tl.store(highest_out + at, highest)
    tl.store(near_out + at, near)
    tl.store(total_out + at, near + tokens * far)


@jit
def _weigh_pages(
    scores: tensor,
    highest: tensor,
    total: tensor,
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
        mass = tl.load(total + at)
        part = tl.div_rn(tl.zeros_like(mass) + tokens, mass)
        # An estimate may be far too low; no page takes more than all of a head's attention.
        weight += tl.minimum(_exp(score - tl.load(highest + at)) * part, 1.0)
    tl.store(weights + row * count + page, tl.where(there, weight, -1.0), mask=page < count)


@jit
def _pairwise(x: tensor, lanes: constexpr) -> tensor:
    """The sum of `x` [16]: the first half plus the second, and again."""
    for power in tl.static_range(3):
        first, second = tl.split(tl.trans(tl.reshape(x, (2, lanes >> (power + 1)))))
        x = first + second
    return tl.sum(x, 0)  # of the last two


@jit
def _exp(x: tensor) -> tensor:
    """e^x as `select.py` computes it, operation by operation."""
    x = tl.minimum(tl.maximum(x, -87.0), 80.0)
    n = (x * 1.44269504088896341 + 12582912.0) - 12582912.0
    r = (x - n * 0.693359375) + n * 2.12194440e-4
    p = tl.zeros_like(r) + 1.9875691500e-4
    p = p * r + 1.3981999507e-3
    p = p * r + 8.3334519073e-3
    p = p * r + 4.1665795894e-2
    p = p * r + 1.6666665459e-1
    p = p * r + 5.0000001201e-1
    power = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return (p * (r * r) + (r + 1.0)) * power
