"""Attention of one new token per sequence in Triton: split over groups of pages, merged in a second kernel.

A group is a constant number of pages, and so is a run of groups that are merged at once: what comes out depends
neither on how many sequences there are nor on where a call is cut (Flash-Decoding: Dao et al. 2023).
"""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kernels.paged_attention import RUN_PAGES, AttentionState
from octavo.engine.kernels.pages_triton import hadamard, load_keys, load_values
from octavo.engine.kernels.triton_jit import FUSED, constexpr, jit, power_of_two, tensor, tl
from octavo.engine.kv.codec import CODECS, PageLayout

_GROUP_PAGES = 4
_RUN_GROUPS = RUN_PAGES // _GROUP_PAGES
_LEAST = 16  # of a side of a block that is multiplied


def attend_pages_triton(
    q: Tensor,
    slab: Tensor,
    layout: PageLayout,
    slots: Tensor,
    distances: Tensor,
    num_pages: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
    state: AttentionState,
    fresh: bool,
) -> None:
    """`attend_pages_torch` in Triton, reading the pages in place. Slots and distances are not checked."""
    n, heads, dim = q.shape
    max_pages = slots.shape[1]
    num_groups = -(-max_pages // _GROUP_PAGES)
    sums = AttentionState(*(torch.empty(n, heads, num_groups, *rest, device=q.device) for rest in ((), (), (dim,))))
    blocks = _blocks(heads, layout)
    if num_groups:
        _attend_group[(n, layout.num_kv_heads, num_groups)](
            q.contiguous(), slab, slots, distances, num_pages, cos, sin, scale, max_pages, num_groups, sums.highest,
            sums.total, sums.values, layout=layout, group=heads // layout.num_kv_heads, pages=_GROUP_PAGES, **blocks,
            **FUSED,
        )  # fmt: skip
    _merge_groups[(n, heads)](
        sums.highest, sums.total, sums.values, state.highest, state.total, state.values, num_groups,
        fresh=fresh, dim=dim, run=_RUN_GROUPS, channels=blocks["channels"], **FUSED,
    )  # fmt: skip


def attend_tail_triton(
    q: Tensor,
    tails: Tensor,
    layout: PageLayout,
    tail_slots: Tensor,
    tail_tokens: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
    state: AttentionState,
) -> Tensor:
    """`attend_tail_torch` in Triton. Slots and numbers of tokens are not checked."""
    n, heads, _ = q.shape
    out = torch.empty_like(q)
    plain = PageLayout(CODECS["f32" if tails.dtype is torch.float32 else "bf16"], *tails.shape[2:])
    size = layout.hadamard_size if layout.codec.value_bits == 4 else 1
    _attend_tail[(n, layout.num_kv_heads)](
        q.contiguous(), tails, tail_slots, tail_tokens, cos, sin, scale, tails.stride(0) * tails.itemsize,
        tails.stride(1) * tails.itemsize, state.highest, state.total, state.values, out,
        layout=plain, group=heads // layout.num_kv_heads, size=size, **_blocks(heads, layout), **FUSED,
    )  # fmt: skip
    return out


def _blocks(heads: int, layout: PageLayout) -> dict[str, int]:
    """Sides of the blocks: query heads of a KV head, rotary pairs, tokens of a page, channels."""
    half = power_of_two(layout.head_dim // 2, _LEAST)
    rows = power_of_two(heads // layout.num_kv_heads, _LEAST)
    return {"rows": rows, "half": half, "tokens": power_of_two(layout.page_size, _LEAST), "channels": 2 * half}


@jit
def _attend_group(
    q: tensor,
    slab: tensor,
    slots: tensor,
    distances: tensor,
    num_pages: tensor,
    cos: tensor,
    sin: tensor,
    scale: tensor,
    max_pages: tensor,
    num_groups: tensor,
    highest: tensor,
    total: tensor,
    values: tensor,
    layout: constexpr,
    group: constexpr,
    pages: constexpr,
    rows: constexpr,
    half: constexpr,
    tokens: constexpr,
    channels: constexpr,
) -> None:
    """The softmax of one group of pages of one sequence, for the query heads of one KV head."""
    dim: constexpr = layout.head_dim
    slot_bytes: constexpr = layout.slot_bytes
    sequence, head, number = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row, pair = tl.arange(0, rows), tl.arange(0, half)
    token, channel = tl.arange(0, tokens), tl.arange(0, channels)
    at = sequence * tl.num_programs(1) * group + head * group + row  # of the query heads of all sequences
    query_first, query_second = _load_query(q, at, row, pair, dim, group)
    # A pair that is not there is a channel that is not there.
    first, second = tl.where(pair < dim // 2, pair, dim), tl.where(pair < dim // 2, pair + dim // 2, dim)
    best = tl.full((rows,), -float("inf"), tl.float32)
    sum_of_weights = tl.zeros((rows,), tl.float32)
    weighted = tl.zeros((rows, channels), tl.float32)
    end = tl.minimum(tl.load(num_pages + sequence), (number + 1) * pages)
    for page in range(number * pages, end):
        slot = tl.load(slots + sequence * max_pages + page).to(tl.int64)
        address = slab + slot * slot_bytes
        distance = tl.load(distances + sequence * max_pages + page)
        rotated_first, rotated_second = _rotate(query_first, query_second, cos, sin, distance, pair, dim)
        keys_first = load_keys(address, head, first[:, None], token[None, :], layout)
        keys_second = load_keys(address, head, second[:, None], token[None, :], layout)
        scores = tl.dot(rotated_first, keys_first, input_precision="ieee")
        scores += tl.dot(rotated_second, keys_second, input_precision="ieee")
        scores = tl.where(token[None, :] < layout.page_size, scores * scale, -float("inf"))
        v = load_values(address, head, token[:, None], channel[None, :], layout)
        before, best = best, tl.maximum(best, tl.max(scores, 1))
        kept = tl.exp(before - best)
        weights = tl.exp(scores - best[:, None])
        sum_of_weights = sum_of_weights * kept + tl.sum(weights, 1)
        weighted = weighted * kept[:, None] + tl.dot(weights, v, input_precision="ieee")
    to = at.to(tl.int64) * num_groups + number
    tl.store(highest + to, best, mask=row < group)
    tl.store(total + to, sum_of_weights, mask=row < group)
    there = (row[:, None] < group) & (channel[None, :] < dim)
    tl.store(values + to[:, None] * dim + channel[None, :], weighted, mask=there)


@jit
def _merge_groups(
    highest: tensor,
    total: tensor,
    values: tensor,
    state_highest: tensor,
    state_total: tensor,
    state_values: tensor,
    num_groups: tensor,
    fresh: constexpr,
    dim: constexpr,
    run: constexpr,
    channels: constexpr,
) -> None:
    """Fold the groups of one query head into its state, a run of them at a time."""
    at = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    channel = tl.arange(0, channels)
    if fresh:
        best = tl.full((), -float("inf"), tl.float32)
        sum_of_weights = tl.zeros((), tl.float32)
        weighted = tl.zeros((channels,), tl.float32)
    else:
        best, sum_of_weights = tl.load(state_highest + at), tl.load(state_total + at)
        weighted = tl.load(state_values + at * dim + channel, mask=channel < dim, other=0.0)
    for begin in range(0, num_groups, run):
        number = begin + tl.arange(0, run)
        there = number < num_groups
        scores = tl.load(highest + at * num_groups + number, mask=there, other=-float("inf"))
        sums = tl.load(total + at * num_groups + number, mask=there, other=0.0)
        rows = (at * num_groups + number)[:, None] * dim + channel[None, :]
        parts = tl.load(values + rows, mask=there[:, None] & (channel[None, :] < dim), other=0.0)
        run_best = tl.max(scores, 0)
        share = _share(scores, run_best)
        together = tl.maximum(best, run_best)
        kept, new = _share(best, together), _share(run_best, together)
        sum_of_weights = sum_of_weights * kept + tl.sum(sums * share, 0) * new
        weighted = weighted * kept + tl.sum(parts * share[:, None], 0) * new
        best = together
    tl.store(state_highest + at, best)
    tl.store(state_total + at, sum_of_weights)
    tl.store(state_values + at * dim + channel, weighted, mask=channel < dim)


@jit
def _attend_tail(
    q: tensor,
    tails: tensor,
    tail_slots: tensor,
    tail_tokens: tensor,
    cos: tensor,
    sin: tensor,
    scale: tensor,
    slot_bytes: tensor,
    part_bytes: tensor,
    state_highest: tensor,
    state_total: tensor,
    state_values: tensor,
    out: tensor,
    layout: constexpr,
    group: constexpr,
    size: constexpr,
    rows: constexpr,
    half: constexpr,
    tokens: constexpr,
    channels: constexpr,
) -> None:
    """Fold one sequence's unfinished page into the state of the query heads of one KV head, and divide.

    `layout` is that of the unfinished page's K and V taken as plain slots, each of which starts its own region.
    """
    dim: constexpr = layout.head_dim
    sequence, head = tl.program_id(0), tl.program_id(1)
    row, pair = tl.arange(0, rows), tl.arange(0, half)
    token, channel = tl.arange(0, tokens), tl.arange(0, channels)
    at = (sequence * tl.num_programs(1) * group + head * group + row).to(tl.int64)
    query_first, query_second = _load_query(q, at, row, pair, dim, group)
    first, second = tl.where(pair < dim // 2, pair, dim), tl.where(pair < dim // 2, pair + dim // 2, dim)
    count = tl.load(tail_tokens + sequence)
    query_first, query_second = _rotate(query_first, query_second, cos, sin, count - 1, pair, dim)
    page = tails.to(tl.pointer_type(tl.uint8)) + tl.load(tail_slots + sequence).to(tl.int64) * slot_bytes
    # A token that is not written may hold anything, infinity too, and 0 * infinity is not a number.
    written = tl.where(token < count, token, layout.page_size)
    keys_first = load_keys(page, head, first[:, None], written[None, :], layout)
    keys_second = load_keys(page, head, second[:, None], written[None, :], layout)
    scores = tl.dot(query_first, keys_first, input_precision="ieee")
    scores += tl.dot(query_second, keys_second, input_precision="ieee")
    scores = tl.where(token[None, :] < count, scores * scale, -float("inf"))
    v = load_keys(page + part_bytes, head, channel[None, :], written[:, None], layout)  # plain V lie as plain K do
    there = (row[:, None] < group) & (channel[None, :] < dim)
    before = tl.load(state_highest + at, mask=row < group, other=-float("inf"))
    sum_of_weights = tl.load(state_total + at, mask=row < group, other=0.0)
    weighted = tl.load(state_values + at[:, None] * dim + channel[None, :], mask=there, other=0.0)
    if size > 1:
        weighted = hadamard(weighted, rows, channels, size)
    best = tl.maximum(before, tl.max(scores, 1))
    kept = _share(before, best)
    weights = tl.exp(scores - best[:, None])
    sum_of_weights = sum_of_weights * kept + tl.sum(weights, 1)
    weighted = weighted * kept[:, None] + tl.dot(weights, v, input_precision="ieee")
    tl.store(state_highest + at, best, mask=row < group)
    tl.store(state_total + at, sum_of_weights, mask=row < group)
    tl.store(state_values + at[:, None] * dim + channel[None, :], weighted, mask=there)
    tl.store(out + at[:, None] * dim + channel[None, :], weighted / sum_of_weights[:, None], mask=there)


@jit
def _load_query(q: tensor, at: tensor, row: tensor, pair: tensor, dim: constexpr, group: constexpr) -> tensor:
    """Both halves of the query heads at rows `at` of `q`; those beyond the group are 0."""
    there = (row[:, None] < group) & (pair[None, :] < dim // 2)
    rows = q + at[:, None] * dim + pair[None, :]
    return tl.load(rows, mask=there, other=0.0), tl.load(rows + dim // 2, mask=there, other=0.0)


@jit
def _rotate(
    first: tensor, second: tensor, cos: tensor, sin: tensor, distance: tensor, pair: tensor, dim: constexpr
) -> tensor:
    angles = distance.to(tl.int64) * (dim // 2) + pair
    c = tl.load(cos + angles, mask=pair < dim // 2, other=0.0)[None, :]
    s = tl.load(sin + angles, mask=pair < dim // 2, other=0.0)[None, :]
    return first * c - second * s, second * c + first * s


@jit
def _share(score: tensor, together: tensor) -> tensor:
    """How much a sum relative to `score` weighs relative to `together`."""
    return tl.where(score == -float("inf"), 0.0, tl.exp(score - together))
