"""Masses of pages by the sketches of their keys, in Triton."""

from __future__ import annotations

from octavo.engine.kernels.scores_triton import exponential, load_codes, load_query, pairwise, query_codes
from octavo.engine.kernels.triton_jit import constexpr, jit, tensor, tl


@jit
def sum_sketch(
    q: tensor,
    boxes: tensor,
    sketches: tensor,
    page_ids: tensor,
    candidates: tensor,
    number: tensor,
    distances: tensor,
    cos: tensor,
    sin: tensor,
    highest: tensor,
    out: tensor,
    scale: tensor,
    third: tensor,
    distance_stride: tensor,
    most: tensor,
    shared: constexpr,
    layout: constexpr,
    group: constexpr,
    half: constexpr,
    lanes: constexpr,
) -> None:
    """Of one query head, the mass of one page's keys by their sketches."""
    dim: constexpr = layout.head_dim
    row, head, heads = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    at = tl.program_id(2)
    if at >= tl.load(number + row):
        return
    item = tl.load(candidates + row * most + at)
    pair = tl.arange(0, half)
    is_pair = pair < dim // 2
    first, second, factor, unit = load_query(q + (row * heads + head) * dim, pair, is_pair, dim, scale)
    angles = tl.load(distances + (0 if shared else row * distance_stride + item)).to(tl.int64) * (dim // 2) + pair
    c, s = tl.load(cos + angles, mask=is_pair, other=0.0), tl.load(sin + angles, mask=is_pair, other=0.0)
    codes_first = query_codes(first * c - second * s, factor)
    codes_second = query_codes(second * c + first * s, factor)
    kv_head = head // group
    page = tl.load(page_ids + item).to(tl.int64)
    box = boxes + page * layout.box_bytes
    codes = box + kv_head * 2 * layout.stride + pair
    lower_first, lower_second = load_codes(codes, is_pair), load_codes(codes + dim // 2, is_pair)
    upper = codes + layout.stride
    width_first = load_codes(upper, is_pair) - lower_first
    width_second = load_codes(upper + dim // 2, is_pair) - lower_second
    grid = (box + layout.page_codes).to(tl.pointer_type(tl.float16)) + kv_head * 2
    step, origin = tl.load(grid).to(tl.float32), tl.load(grid + 1).to(tl.float32)
    lowest = 3 * tl.sum(codes_first * lower_first + codes_second * lower_second, 0)
    total = tl.sum(codes_first + codes_second, 0).to(tl.float32)
    words = (sketches + page * layout.sketch_bytes).to(tl.pointer_type(tl.int32))
    words += kv_head * layout.sketch_tokens * (layout.stride // lanes)
    above = tl.load(highest + row * heads + head)
    masses = tl.zeros((lanes,), tl.float32)
    lane = tl.arange(0, lanes)
    for begin in range(0, layout.page_size, lanes):
        of_first = _thirds(words, lane, pair, is_pair, lanes) * (codes_first * width_first)[None, :]
        of_second = _thirds(words, lane, pair + dim // 2, is_pair, lanes) * (codes_second * width_second)[None, :]
        sums = (lowest + tl.sum(of_first + of_second, 1)).to(tl.float32) * third
        score = unit * (step * sums + origin * total)
        masses += tl.where(begin + lane < layout.page_size, exponential(score - above), 0.0)
        words += lanes * (layout.stride // lanes)
    tl.store(out + (row * most + at) * heads + head, pairwise(masses, lanes))


@jit
def _thirds(words: tensor, lane: tensor, channel: tensor, there: tensor, lanes: constexpr) -> tensor:
    """Of 16 tokens, what their sketches say of the channels: int32 [lanes, channels]."""
    at = (channel // lanes * lanes)[None, :] + lane[:, None]
    shift = channel % lanes // 2 * 2 + channel % 2 * lanes
    return (tl.load(words + at, mask=there[None, :], other=0) >> shift[None, :]) & 3
