"""Exact attention over KV pages, for the two shapes a step runs: decode rows, and one prefill chunk.

Keys in a page are rotated by their offset inside it. Decoding rotates the query once a page, by the distance from
the page's start; a prefill chunk has many queries to a page, so it rotates the gathered keys by the page's start
instead, and its queries by their own position. Both give the same relative angles.

Complete pages are read as the codec encoded them, also by the chunk that computes them, so that a prefix that is
found again gives what it gave when it was new; only a query's own page is read as it was computed. Pages are taken in
fixed groups, in page order, whether they are on the device or pass through it: results do not depend on budgets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.cache import SequencePages
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.kv.tiers import GROUP_PAGES, Tiers
from octavo.engine.model.rope import RopeTable, rotate


class DecodeAttention:
    """One new token for each of several sequences; holds the page tables of one step.

    `positions[i]` is the position of the token that row i computes; its page is the tail of `sequences[i]`.
    """

    def __init__(
        self,
        tiers: Tiers,
        rope: RopeTable,
        kernels: Kernels,
        scale: float,
        positions: list[int],
        sequences: list[SequencePages],
        state: AttentionState,
    ) -> None:
        pool = tiers.device
        page_size, device = pool.page_size, pool.slab.device
        position = torch.tensor(positions, dtype=torch.int32)
        self._tiers, self._pool, self._rope, self._kernels, self._scale = tiers, pool, rope, kernels, scale
        self._state = state
        self._pages = [np.array(pages.page_ids, dtype=np.int64) for pages in sequences]
        counts = torch.tensor([len(pages) for pages in self._pages], dtype=torch.int32)
        padded = np.zeros((len(positions), max(1, int(counts.max()))), dtype=np.int64)
        for row, pages in enumerate(self._pages):
            padded[row, : len(pages)] = pages
        starts = torch.arange(0, padded.shape[1] * page_size, page_size, dtype=torch.int32)
        self._is_near = all((pool.num_resident[pages] == pool.num_layers).all() for pages in self._pages)
        self._slots = pool.table(padded) if self._is_near and padded.size and pool.slots.shape[1] else None
        self._distances = (position[:, None] - starts).clamp_(min=0).to(device)
        self._counts = counts.to(device)
        self._tail_slots = pool.tail_slots([pages.tail for pages in sequences])
        self._offsets = (position % page_size).to(device)
        self._tail_tokens = self._offsets + 1

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        pool, rope, kernels = self._pool, self._rope, self._kernels
        tails = self._tail_slots[layer]
        page_angles = rope.cos[: pool.page_size], rope.sin[: pool.page_size]
        kernels.write_kv(pool.tails, tails, self._offsets, k, v, *page_angles)
        if self._slots is None:
            self._stream(layer, q)
        else:
            self._attend(q, self._slots[layer], self._distances, self._counts, self._state, True)
        return kernels.attend_tail(
            q, pool.tails, pool.layout, tails, self._tail_tokens, rope.cos, rope.sin, self._scale, self._state
        )

    def _stream(self, layer: int, q: Tensor) -> None:
        """The pages of one sequence after the other, a group at a time."""
        for row, pages in enumerate(self._pages):
            state = rows_of(self._state, row, row + 1)
            for first in range(0, max(1, len(pages)), GROUP_PAGES):
                group = pages[first : first + GROUP_PAGES]
                slots = torch.from_numpy(self._tiers.load(layer, group).astype(np.int32)).to(q.device)[None]
                distances = self._distances[row : row + 1, first : first + len(group)].contiguous()
                count = torch.tensor([len(group)], dtype=torch.int32, device=q.device)
                self._attend(q[row : row + 1], slots, distances, count, state, first == 0)

    def _attend(
        self, q: Tensor, slots: Tensor, distances: Tensor, counts: Tensor, state: AttentionState, fresh: bool
    ) -> None:
        pool, rope = self._pool, self._rope
        self._kernels.attend_pages(
            q, pool.slab, pool.layout, slots, distances, counts, rope.cos, rope.sin, self._scale, state, fresh
        )


def rows_of(state: AttentionState, first: int, end: int) -> AttentionState:
    """The part of a state that belongs to some of its sequences, in place."""
    return AttentionState(state.highest[first:end], state.total[first:end], state.values[first:end])


class PrefillAttention:
    """A chunk of consecutive tokens of one sequence, starting at the page boundary `start`.

    Of the sequence's pages the last are those that the chunk completes. Products are taken in `dtype`.
    """

    def __init__(
        self,
        tiers: Tiers,
        rope: RopeTable,
        kernels: Kernels,
        scale: float,
        start: int,
        length: int,
        pages: SequencePages,
        dtype: torch.dtype,
    ) -> None:
        pool = tiers.device
        page_size, device = pool.page_size, pool.slab.device
        assert start % page_size == 0, "a chunk starts on a page boundary"
        self._tiers, self._pool, self._rope, self._kernels, self._scale = tiers, pool, rope, kernels, scale
        self._start, self._length, self._dtype = start, length, dtype
        num_past = start // page_size
        self._past = np.array(pages.page_ids[:num_past], dtype=np.int64)
        self._own = pages.page_ids[num_past:]
        assert len(self._own) == length // page_size, "every page that the chunk completes has its place"
        num_pages = -(-length // page_size)
        offsets = torch.arange(length, device=device)
        self._page_of, self._offsets = (offsets // page_size).int(), (offsets % page_size).int()
        # The chunk's K and V as computed, in the form of unfinished pages, one layer at a time.
        self._staging = torch.empty(num_pages, *pool.tails.shape[1:], dtype=pool.tails.dtype, device=device)
        self._raw_layout = _raw_layout(pool.layout, pool.tails.dtype)
        self._own_starts = torch.arange(start, start + num_pages * page_size, page_size, device=device).int()
        self._own_slots = torch.arange(num_pages, dtype=torch.int32, device=device)
        self._tail_slots = pool.tail_slots([pages.tail])[:, 0].tolist()
        self._mask: Tensor | None = None
        if not pool.layout.codec.is_lossless and self._own:
            self._mask = _own_mask(length, len(self._own), page_size, device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope, kernels, pool = self._rope, self._kernels, self._pool
        page_angles = rope.cos[: pool.page_size], rope.sin[: pool.page_size]
        kernels.write_kv(self._staging, self._page_of, self._offsets, k, v, *page_angles)
        encoded: Tensor | None = None
        if self._own:
            encoded = kernels.encode_pages(self._staging[: len(self._own)], pool.layout)
            self._tiers.put(layer, self._own, encoded)
        if len(self._own) < len(self._staging):
            pool.tails[self._tail_slots[layer]] = self._staging[-1]
        angles = slice(self._start, self._start + self._length)
        queries = rotate(q, rope.cos[angles, None], rope.sin[angles, None]).to(self._dtype).transpose(0, 1)
        merged = _Merged()
        for slots, starts in self._groups(layer):
            merged.add(*_attend(queries, *self._gather(pool.slab, pool.layout, slots, starts), self._scale))
        merged.add(*self._attend_own(queries, encoded))
        return merged.result.transpose(0, 1)

    def _groups(self, layer: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Slots and starts of the pages before the chunk, a group at a time."""
        page_size, device = self._pool.page_size, self._pool.slab.device
        for first in range(0, len(self._past), GROUP_PAGES):
            group = self._past[first : first + GROUP_PAGES]
            slots = torch.from_numpy(self._tiers.load(layer, group).astype(np.int32)).to(device)
            starts = torch.arange(first * page_size, (first + len(group)) * page_size, page_size, device=device)
            yield slots, starts.int()

    def _attend_own(self, queries: Tensor, encoded: Tensor | None) -> tuple[Tensor, Tensor]:
        """The chunk over itself: earlier pages as encoded, each query's own page as computed."""
        raw = self._staging.view(len(self._staging), -1).view(torch.uint8)
        keys, values = self._gather(raw, self._raw_layout, self._own_slots, self._own_starts)
        keys, values = keys[:, : self._length], values[:, : self._length]
        if self._mask is None or encoded is None:
            return _attend(queries, keys, values, self._scale, is_causal=True)
        count = len(self._own)
        past = self._gather(encoded, self._pool.layout, self._own_slots[:count], self._own_starts[:count])
        both = torch.cat((past[0], keys), dim=1), torch.cat((past[1], values), dim=1)
        return _attend(queries, *both, self._scale, mask=self._mask)

    def _gather(self, slab: Tensor, layout: PageLayout, slots: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """K at its true angles, and V: `[kv_heads, pages * page_size, head_dim]`."""
        rope = self._rope
        return self._kernels.gather_pages(slab, layout, slots, starts, rope.cos, rope.sin, self._dtype)


class _Merged:
    """Partial results of the same queries over disjoint keys, put together by their log-sum-exp.

    As in FlashAttention (Dao et al. 2022, arXiv:2205.14135), so that no score matrix of the whole context exists.
    """

    def __init__(self) -> None:
        self._out: Tensor | None = None
        self._lse: Tensor | None = None

    def add(self, out: Tensor, lse: Tensor) -> None:
        """`out` `[heads, rows, d]`, `lse` float32 `[heads, rows]`."""
        if self._out is None or self._lse is None:
            self._out, self._lse = out, lse
            return
        share = torch.sigmoid(lse - self._lse).unsqueeze(-1)
        self._out = torch.lerp(self._out.float(), out.float(), share)
        self._lse = torch.logaddexp(self._lse, lse)

    @property
    def result(self) -> Tensor:
        assert self._out is not None
        return self._out


def _attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, is_causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention of `q` [heads, rows, d] over `k`, `v` [kv_heads, keys, d]: result and log-sum-exp [heads, rows].

    `mask` [rows, keys] is 0 where a query may look and -inf elsewhere.
    """
    heads, rows, d = q.shape
    kv_heads, group = k.shape[0], heads // k.shape[0]
    if q.device.type != "cpu":
        return _attend_plainly(q, k, v, scale, is_causal, mask)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    if is_causal or mask is not None:
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        out, lse = flash(q[None], k[None], v[None], 0.0, is_causal, attn_mask=mask, scale=scale)
        return out[0], lse[0]
    # Query heads of one KV head stand side by side as more rows, so K and V need no copies.
    grouped = q.reshape(1, kv_heads, group * rows, d)
    out, lse = flash(grouped, k[None], v[None], 0.0, False, scale=scale)
    return out.reshape(heads, rows, d), lse.reshape(heads, rows)


def _attend_plainly(
    q: Tensor, k: Tensor, v: Tensor, scale: float, is_causal: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`_attend` by its definition; the scores of one chunk over one group are all that it builds."""
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    scores = torch.matmul(q, k.transpose(1, 2)).float() * scale
    if is_causal:
        scores += torch.full_like(scores[0], -torch.inf).triu_(1)
    elif mask is not None:
        scores += mask
    lse = torch.logsumexp(scores, dim=-1)
    return torch.matmul(torch.exp(scores - lse.unsqueeze(-1)).to(v.dtype), v), lse


def _own_mask(length: int, num_pages: int, page_size: int, device: torch.device) -> Tensor:
    """What a chunk's queries see of [its complete pages as encoded, its tokens as computed]: 0 or -inf."""
    query = torch.arange(length, device=device)[:, None]
    encoded = torch.arange(num_pages * page_size, device=device)[None]
    computed = torch.arange(length, device=device)[None]
    sees_encoded = encoded // page_size < query // page_size
    sees_computed = (computed // page_size == query // page_size) & (computed <= query)
    sees = torch.cat((sees_encoded, sees_computed), dim=1)
    return torch.zeros(sees.shape, device=device).masked_fill_(~sees, -torch.inf)


def _raw_layout(layout: PageLayout, dtype: torch.dtype) -> PageLayout:
    """Unfinished pages, seen as slots of the codec that leaves values as they are."""
    name = "f32" if dtype is torch.float32 else "bf16"
    return PageLayout(CODECS[name], layout.num_kv_heads, layout.page_size, layout.head_dim)
