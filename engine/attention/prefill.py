"""Exact attention of a prefill chunk over KV pages.

A chunk has many queries to a page, so it rotates the gathered keys by their page's start, and its queries by their
own position; relative angles are as in decoding. Complete pages are read as the codec encoded them, also by the chunk
that computes them, so that a prefix that is found again gives what it gave when it was new; only a query's own page is
read as it was computed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from octavo.engine.attention.chunk_rows import (
    Angles,
    ChunkRows,
    KeysAndValues,
    MergedRows,
    NativeRows,
    OwnSights,
    Sight,
)
from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.config import GROUP_PAGES
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.kv.sequence_pages import SequencePages


class PrefillAttention:
    """A chunk of consecutive tokens of one sequence, starting at the page boundary `start`.

    Of the sequence's pages the last are those that the chunk completes. Products are taken in `dtype`.
    """

    def __init__(
        self,
        setup: AttentionSetup,
        start: int,
        length: int,
        pages: SequencePages,
        dtype: torch.dtype,
    ) -> None:
        pool = setup.pool
        page_size, device = pool.page_size, pool.slab.device
        assert start % page_size == 0, "a chunk starts on a page boundary"
        self._setup, self._pool, self._rope = setup, pool, setup.rope
        self._start, self._length, self._dtype = start, length, dtype
        num_past = start // page_size
        first = self._first_page(setup.plan, num_past)
        # Angles count from the first page that is read at its true distance.
        self._base = first * page_size
        self._past = np.array(pages.page_ids[first:num_past], dtype=np.int64)
        self._own = pages.page_ids[num_past:]
        assert len(self._own) == length // page_size, "every page that the chunk completes has its place"
        num_pages = -(-length // page_size)
        offsets = torch.arange(length, device=device)
        self._page_of, self._offsets = (offsets // page_size).int(), (offsets % page_size).int()
        # The chunk's K and V as computed, in the form of unfinished pages, one layer at a time; zero behind its end.
        self._staging = torch.zeros(num_pages, *pool.tails.shape[1:], dtype=pool.tails.dtype, device=device)
        self._raw_layout = _raw_layout(pool.layout, pool.tails.dtype)
        own_starts = torch.arange(0, num_pages * page_size, page_size, device=device)
        self._own_starts = (own_starts + start - self._base).int()
        self._own_slots = torch.arange(num_pages, dtype=torch.int32, device=device)
        self._tail_slots = pool.tail_slots([pages.tail])[:, 0].tolist()
        num_encoded = 0 if pool.layout.codec.is_lossless else len(self._own)
        self._sights = OwnSights(length, num_encoded, page_size, device)
        self._reads_encoded = num_encoded > 0
        self._state: AttentionState | None = None

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self._attend_near(layer, q, k, v, is_last=True).result()

    def _first_page(self, plan: ReadingPlan, num_past: int) -> int:
        """The first page that all queries of the chunk may read at its true distance."""
        return 0

    def _sight_of(self, first: int, count: int) -> Sight | None:
        """What the chunk's queries see of `count` earlier pages from `first` on; None is everything."""
        return None

    def _rows_of(self, q: Tensor) -> ChunkRows:
        angles = Angles(self._rope, self._start - self._base, self._length)
        if self._setup.attend_rows is None or self._dtype is not torch.bfloat16:
            return MergedRows(self._setup, q, angles, self._dtype)
        if self._state is None:  # the same for every layer
            self._state = AttentionState.empty(*q.shape)
        return NativeRows(self._setup, q, angles, self._state)

    def _attend_near(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, is_last: bool) -> ChunkRows:
        """Keep the chunk's K and V, and attend over the pages before it and itself; `is_last`: and nothing else."""
        setup, pool = self._setup, self._pool
        setup.kernels.write_kv(self._staging, self._page_of, self._offsets, k, v, *setup.page_angles)
        encoded: Tensor | None = None
        if self._own:
            encoded = setup.kernels.encode_pages(self._staging[: len(self._own)], pool.layout)
            setup.tiers.put(layer, self._own, encoded)
        if len(self._own) < len(self._staging):
            pool.tails[self._tail_slots[layer]] = self._staging[-1]
        rows = self._rows_of(q)
        for slots, starts, sight in self._groups(layer):
            rows.add(self._gather(pool.slab, pool.layout, slots, starts), sight)
        self._attend_own(rows, encoded, is_last)
        return rows

    def _groups(self, layer: int) -> Iterator[tuple[Tensor, Tensor, Sight | None]]:
        """Slots, starts and sight of the pages before the chunk, a group at a time."""
        tiers, page_size, device = self._setup.tiers, self._pool.page_size, self._pool.slab.device
        for first in range(0, len(self._past), GROUP_PAGES):
            group = self._past[first : first + GROUP_PAGES]
            slots = torch.from_numpy(tiers.load(layer, group).astype(np.int32)).to(device)
            tiers.expect(layer, self._past[first + GROUP_PAGES : first + 2 * GROUP_PAGES])
            starts = torch.arange(first * page_size, (first + len(group)) * page_size, page_size, device=device)
            yield slots, starts.int(), self._sight_of(first, len(group))

    def _attend_own(self, rows: ChunkRows, encoded: Tensor | None, is_last: bool) -> None:
        """The chunk over itself: earlier pages as encoded, each query's own page as computed."""
        raw = self._staging.view(len(self._staging), -1).view(torch.uint8)
        computed = self._gather(raw, self._raw_layout, self._own_slots, self._own_starts)
        past: KeysAndValues | None = None
        if self._reads_encoded and encoded is not None:
            count = len(self._own)
            past = self._gather(encoded, self._pool.layout, self._own_slots[:count], self._own_starts[:count])
        rows.add_own(past, computed, self._sights, is_last=is_last)

    def _gather(self, slab: Tensor, layout: PageLayout, slots: Tensor, starts: Tensor) -> KeysAndValues:
        """K at its true angles, and V: `[kv_heads, pages * page_size, head_dim]`."""
        rope = self._rope
        return self._setup.kernels.gather_pages(slab, layout, slots, starts, rope.cos, rope.sin, self._dtype)


def _raw_layout(layout: PageLayout, dtype: torch.dtype) -> PageLayout:
    """Unfinished pages, seen as slots of the codec that leaves values as they are."""
    name = "f32" if dtype is torch.float32 else "bf16"
    return PageLayout(CODECS[name], layout.num_kv_heads, layout.page_size, layout.head_dim)
