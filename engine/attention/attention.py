"""Exact attention over KV pages, for the two shapes a step runs: decode rows, and one prefill chunk.

Keys in a page are rotated by their offset inside it. Decoding rotates the query once a page, by the distance from
the page's start; a prefill chunk has many queries to a page, so it rotates the gathered keys by the page's start
instead, and its queries by their own position. Both give the same relative angles.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.pools import DevicePool
from octavo.engine.model.rope import RopeTable, rotate


class DecodeAttention:
    """One new token for each of several sequences; holds the page tables of one step.

    `positions[i]` is the position of the token that row i computes, `page_ids[i]` the pages of its sequence, of
    which the last one receives that token.
    """

    def __init__(
        self,
        pool: DevicePool,
        rope: RopeTable,
        kernels: Kernels,
        scale: float,
        positions: list[int],
        page_ids: list[list[PageId]],
    ) -> None:
        page_size, device = pool.page_size, pool.slab.device
        rows, most = len(positions), max(map(len, page_ids))
        position = torch.tensor(positions, dtype=torch.int32)
        counts = torch.tensor([len(pages) for pages in page_ids], dtype=torch.int32)
        padded = torch.zeros(rows, most, dtype=torch.int64)
        for row, pages in enumerate(page_ids):
            padded[row, : len(pages)] = torch.tensor(pages)
        starts = torch.arange(0, most * page_size, page_size, dtype=torch.int32)
        self._pool, self._rope, self._kernels, self._scale = pool, rope, kernels, scale
        self._slots = pool.resident(padded).contiguous()
        self._distances = (position[:, None] - starts).clamp_(min=0).to(device)
        self._counts = counts.to(device)
        self._offsets = (position % page_size).to(device)
        self._tails = self._offsets + 1
        self._last = (counts.long() - 1)[:, None].to(device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        slots = self._slots[layer]
        write_slots = slots.gather(1, self._last).view(-1)
        page_angles = self._rope.cos[: self._pool.page_size], self._rope.sin[: self._pool.page_size]
        self._kernels.write_kv(self._pool.slab, write_slots, self._offsets, k, v, *page_angles)
        return self._kernels.decode_attention(
            q,
            self._pool.slab,
            slots,
            self._distances,
            self._counts,
            self._tails,
            self._rope.cos,
            self._rope.sin,
            self._scale,
        )


class PrefillAttention:
    """A chunk of consecutive tokens of one sequence, starting at the page boundary `start`.

    `page_ids` are the sequence's pages, up to those that receive the chunk. Products are taken in `dtype`.
    """

    def __init__(
        self,
        pool: DevicePool,
        rope: RopeTable,
        kernels: Kernels,
        scale: float,
        start: int,
        length: int,
        page_ids: list[PageId],
        dtype: torch.dtype,
    ) -> None:
        page_size, device = pool.page_size, pool.slab.device
        assert start % page_size == 0, "a chunk starts on a page boundary"
        self._pool, self._rope, self._kernels, self._scale = pool, rope, kernels, scale
        self._start, self._length, self._dtype = start, length, dtype
        num_pages = -(-(start + length) // page_size)
        self._slots = pool.resident(torch.tensor(page_ids[:num_pages]))
        positions = torch.arange(start, start + length, device=device)
        self._offsets = (positions % page_size).int()
        self._page_of = positions // page_size
        self._page_starts = torch.arange(0, num_pages * page_size, page_size, device=device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope, slab = self._rope, self._pool.slab
        slots = self._slots[layer]
        page_angles = rope.cos[: self._pool.page_size], rope.sin[: self._pool.page_size]
        # Written first, then read back: a later query sees these tokens as encoded, and so does this one.
        self._kernels.write_kv(slab, slots[self._page_of], self._offsets, k, v, *page_angles)
        end = self._start + self._length
        query_angles = rope.cos[self._start : end, None], rope.sin[self._start : end, None]
        queries = rotate(q, *query_angles).to(self._dtype).transpose(0, 1)
        keys, values = self._gather(slab[slots.long()])
        return _causal(queries, keys[:, :end], values[:, :end], self._start, self._scale).transpose(0, 1)

    def _gather(self, pages: Tensor) -> tuple[Tensor, Tensor]:
        """`pages` [P, 2, kv_heads, page_size, d] -> K at its true angles, and V: [kv_heads, P * page_size, d]."""
        angles = self._rope.cos[self._page_starts], self._rope.sin[self._page_starts]
        keys = rotate(pages[:, 0].float(), *(angle[:, None, None] for angle in angles)).to(self._dtype)
        return (
            keys.transpose(0, 1).flatten(1, 2),
            pages[:, 1].to(self._dtype).transpose(0, 1).flatten(1, 2),
        )


def _causal(q: Tensor, k: Tensor, v: Tensor, start: int, scale: float) -> Tensor:
    """Attention of `q` [heads, rows, d], at positions `start`.., over `k`, `v` [kv_heads, start + rows, d].

    On a CPU what came before the chunk and the chunk itself are two calls whose results are merged by their
    log-sum-exp (as in FlashAttention, Dao et al. 2022, arXiv:2205.14135), so no mask is ever built.
    """
    heads, rows, d = q.shape
    group = heads // k.shape[0]
    if q.device.type != "cpu":
        mask = causal_lower_right(rows, k.shape[1])
        out: Tensor = scaled_dot_product_attention(
            q[None], k[None], v[None], attn_mask=mask, scale=scale, enable_gqa=group > 1
        )
        return out[0]
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    own_k, own_v = (x[:, start:].repeat_interleave(group, 0)[None] for x in (k, v))
    own: Tensor
    own, own_lse = flash(q[None], own_k, own_v, 0.0, True, scale=scale)
    if start == 0:
        return own[0]
    # Query heads of one KV head stand side by side as more rows, so K and V need no copies.
    grouped = q.reshape(1, k.shape[0], group * rows, d)
    past, past_lse = flash(grouped, k[None, :, :start], v[None, :, :start], 0.0, False, scale=scale)
    share = torch.sigmoid(past_lse.reshape(heads, rows) - own_lse[0]).unsqueeze(-1)
    merged = torch.lerp(own[0].float(), past.reshape(heads, rows, d).float(), share)
    return merged.to(q.dtype)
