"""Attention of one new token per sequence: over its complete pages, then over the unfinished one.

Pages are summed in groups of a constant number, each with its own softmax, and the groups are folded one after the
other into a running state (online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867). What the state holds in
the end does not depend on how many calls it took, as long as each but the last ends with a whole number of groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import (
    describe,
    describe_tails,
    require,
    require_angles,
    require_pages,
    require_shape,
    require_slab,
)
from octavo.engine.kernels.quantize import hadamard, read_keys, read_values
from octavo.engine.kv.codec import PageLayout
from octavo.engine.model.rope import rotate

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

RUN_PAGES = 64
"""Calls may be cut at multiples of this many pages: every implementation's groups divide it."""


@dataclass(frozen=True, eq=False)
class AttentionState:
    """The softmax of n sequences so far, per head: the `highest` score, the `total` of the exponentials relative to
    it, and the sum of the `values` so weighted. float32 [n, heads], [n, heads], [n, heads, d].

    Values of a codec that rotates V stay rotated in it. Nothing read yet is a `highest` of minus infinity.
    """

    highest: Tensor
    total: Tensor
    values: Tensor

    @classmethod
    def empty(cls, n: int, heads: int, dim: int, device: torch.device | str = "cpu") -> AttentionState:
        """Memory for a state; `attend_pages` with `fresh` gives it its contents."""
        return cls(*(torch.empty(shape, device=device) for shape in ((n, heads), (n, heads), (n, heads, dim))))

    def clear(self) -> None:
        self.highest.fill_(-torch.inf)
        self.total.zero_()
        self.values.zero_()

    def fold(self, highest: Tensor, total: Tensor, values: Tensor) -> None:
        """Add sums of the same three shapes."""
        together = torch.maximum(self.highest, highest)
        before, new = (_share(old, together) for old in (self.highest, highest))
        self.highest.copy_(together)
        self.total.copy_(self.total * before + total * new)
        self.values.copy_(self.values * before.unsqueeze(-1) + values * new.unsqueeze(-1))


def attend_pages_torch(
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
    """Fold complete pages into `state`, which begins anew if `fresh`.

    `q` float32 [n, heads, d] is not yet rotated. Sequence i reads all tokens of the pages
    slab[slots[i, :num_pages[i]]], in order; there may be none. Keys carry the rotation of their offset in the page,
    so the query is rotated once per page, by distances[i, p] = position - page start: the rotations compose to the
    relative distance of query and key. `cos` and `sin` are float32 [max_distance + 1, d/2]; heads / kv_heads
    neighbouring query heads share a KV head. The page tensors are int32, [n, max_pages] twice and [n].
    """
    if fresh:
        state.clear()
    most = int(num_pages.max()) if len(num_pages) else 0
    for begin in range(0, most, RUN_PAGES):
        end = min(begin + RUN_PAGES, most)
        there = torch.arange(begin, end, device=q.device) < num_pages[:, None]  # [n, pages]
        run_slots = torch.where(there, slots[:, begin:end], 0)
        run_distances = torch.where(there, distances[:, begin:end], 0)
        state.fold(*_sum_pages(q, slab, layout, run_slots, run_distances, there, cos, sin, scale))


def attend_tail_torch(
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
    """Fold the unfinished pages into `state` and return the attention: float32 [n, heads, d].

    `tails` is bfloat16 or float32 [tail slots, 2, kv_heads, page_size, d]; sequence i reads the first
    `tail_tokens[i]` tokens (at least one, the query's own being the last) of tails[tail_slots[i]]; both int32 [n].
    """
    if layout.codec.value_bits == 4:
        state.values.copy_(hadamard(state.values, layout.hadamard_size))
    pages = tails[tail_slots.long()].float()  # [n, 2, kv_heads, page_size, d]
    query = _rotate(q, cos, sin, tail_tokens - 1)
    offsets = torch.arange(layout.page_size, device=q.device)
    there = offsets < tail_tokens[:, None]  # [n, page_size]
    n, heads, dim = q.shape
    keys, values = pages.unbind(1)
    grouped = query.view(n, layout.num_kv_heads, -1, dim)
    scores = torch.einsum("nhgd,nhtd->nhgt", grouped, keys).mul_(scale)
    # An unwritten token may hold anything, infinity too, and 0 * infinity is not a number.
    values = torch.where(there[:, None, :, None], values, 0.0)
    state.fold(*_softmax_sums(scores, there[:, None, None], values, (n, heads, dim)))
    return state.values / state.total.unsqueeze(-1)


def attend_pages_native(
    ops: Ops,
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
    """`attend_pages_torch` in C, on the CPU, reading the pages in place.

    The result does not depend on the number of threads. ValueError for a slot, distance or count out of its range.
    """
    op = "attend_pages"
    require_pages(op, slab, layout)
    require(op, torch.int32, slots, distances, num_pages)
    n, heads = _require_query(op, q, layout, cos, sin, state)
    max_pages = slots.shape[-1]
    require_shape(op, "slots", slots, n, max_pages)
    require_shape(op, "distances", distances, n, max_pages)
    require_shape(op, "num_pages", num_pages, n)
    ops.attend_pages(
        describe(layout),
        slab.data_ptr(),
        slab.shape[0],
        q.data_ptr(),
        n,
        heads,
        slots.data_ptr(),
        distances.data_ptr(),
        num_pages.data_ptr(),
        max_pages,
        cos.data_ptr(),
        sin.data_ptr(),
        cos.shape[0],
        scale,
        state.highest.data_ptr(),
        state.total.data_ptr(),
        state.values.data_ptr(),
        fresh,
    )


def attend_tail_native(
    ops: Ops,
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
    """`attend_tail_torch` in C, on the CPU. ValueError for a slot or count out of its range."""
    op = "attend_tail"
    num_tails, kv_heads, page_size, dim = require_slab(op, tails)
    require(op, torch.int32, tail_slots, tail_tokens)
    n, heads = _require_query(op, q, layout, cos, sin, state)
    require_shape(op, "tails", tails, num_tails, 2, layout.num_kv_heads, layout.page_size, layout.head_dim)
    require_shape(op, "tail_slots", tail_slots, n)
    require_shape(op, "tail_tokens", tail_tokens, n)
    out = torch.empty_like(q)
    ops.attend_tail(
        describe_tails(kv_heads, page_size, dim, tails.dtype),
        layout.hadamard_size if layout.codec.value_bits == 4 else 0,
        tails.data_ptr(),
        num_tails,
        q.data_ptr(),
        n,
        heads,
        tail_slots.data_ptr(),
        tail_tokens.data_ptr(),
        cos.data_ptr(),
        sin.data_ptr(),
        cos.shape[0],
        scale,
        state.highest.data_ptr(),
        state.total.data_ptr(),
        state.values.data_ptr(),
        out.data_ptr(),
    )
    return out


def _require_query(
    op: str, q: Tensor, layout: PageLayout, cos: Tensor, sin: Tensor, state: AttentionState
) -> tuple[int, int]:
    """The numbers of sequences and query heads; ValueError unless query, angles and state fit the pages."""
    require(op, torch.float32, q, state.highest, state.total, state.values)
    require_angles(op, cos, sin, layout.head_dim)
    n, heads, _ = q.shape
    require_shape(op, "q", q, n, heads, layout.head_dim)
    require_shape(op, "state.highest", state.highest, n, heads)
    require_shape(op, "state.total", state.total, n, heads)
    require_shape(op, "state.values", state.values, n, heads, layout.head_dim)
    if heads % layout.num_kv_heads:
        raise ValueError(f"{op} takes a multiple of {layout.num_kv_heads} query heads, not {heads}")
    return n, heads


def _sum_pages(
    q: Tensor,
    slab: Tensor,
    layout: PageLayout,
    slots: Tensor,
    distances: Tensor,
    there: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Highest score, total and values of one run of pages: `slots`, `distances` and `there` are [n, pages]."""
    n, heads, dim = q.shape
    num_pages = slots.shape[1]
    data = slab[slots.flatten().long()]
    shape = n, num_pages, layout.num_kv_heads, layout.page_size, dim
    keys, values = read_keys(data, layout).reshape(shape), read_values(data, layout).reshape(shape)
    query = _rotate(q.unsqueeze(1).expand(-1, num_pages, -1, -1), cos, sin, distances)  # [n, pages, heads, d]
    grouped = query.reshape(n, num_pages, layout.num_kv_heads, -1, dim)
    scores = torch.einsum("nphgd,nphtd->nhgpt", grouped, keys).mul_(scale)
    # A page that is not there reads slot 0, whatever lies in it.
    mask = there[:, :, None, None, None]
    values = torch.where(mask, values, 0.0).transpose(1, 2).flatten(2, 3)  # [n, kv_heads, tokens, d]
    tokens = there.repeat_interleave(layout.page_size, dim=1)[:, None, None]
    return _softmax_sums(scores.flatten(3), tokens, values, (n, heads, dim))


def _softmax_sums(
    scores: Tensor, there: Tensor, values: Tensor, shape: tuple[int, int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """`scores` [n, kv_heads, group, tokens] and `values` [n, kv_heads, tokens, d] as three sums over tokens."""
    n, heads, _ = shape
    scores = scores.masked_fill(~there, -torch.inf)
    highest = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - torch.where(highest == -torch.inf, 0.0, highest))
    sums = torch.matmul(weights, values)
    return highest.reshape(n, heads), weights.sum(dim=-1).reshape(n, heads), sums.reshape(shape)


def _rotate(q: Tensor, cos: Tensor, sin: Tensor, distances: Tensor) -> Tensor:
    """`q` [..., heads, d] at `distances` [...]."""
    return rotate(q, *(table[distances.long()].unsqueeze(-2) for table in (cos, sin)))


def _share(highest: Tensor, together: Tensor) -> Tensor:
    """How much a sum relative to `highest` weighs relative to `together`."""
    return torch.where(highest == -torch.inf, 0.0, torch.exp(highest - together))
