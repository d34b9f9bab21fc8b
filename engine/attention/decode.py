"""Attention of one new token for each of several sequences over KV pages.

Keys in a page are rotated by their offset inside it, so the query is rotated once a page, by the distance from the
page's start. Pages are taken in fixed groups, in page order, whether they are on the device or pass through it:
results do not depend on budgets.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.config import GROUP_PAGES
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.select import SelectionLimits
from octavo.engine.kv.cache import SequencePages
from octavo.engine.kv.pools import Ids
from octavo.engine.kv.tiers import Tiers
from octavo.engine.model.rope import RopeTable


class DecodeAttention:
    """One new token for each of several sequences; holds the page tables of one step.

    `positions[i]` is the position of the token that row i computes; its page is the tail of `sequences[i]`.
    """

    def __init__(
        self,
        tiers: Tiers,
        plan: ReadingPlan,
        rope: RopeTable,
        kernels: Kernels,
        scale: float,
        positions: list[int],
        sequences: list[SequencePages],
        state: AttentionState,
    ) -> None:
        pool = tiers.device
        device = pool.slab.device
        self._tiers, self._pool, self._rope, self._kernels, self._scale = tiers, pool, rope, kernels, scale
        self._state = state
        self._rows = [
            DenseRow(position, pages, pool.page_size)
            if plan.is_dense(position)
            else SparseRow(position, pages, pool.page_size, plan)
            for position, pages in zip(positions, sequences, strict=True)
        ]
        offsets = torch.tensor([position % pool.page_size for position in positions], dtype=torch.int32)
        self._offsets = offsets.to(device)
        self._tail_tokens = self._offsets + 1
        self._tail_slots = pool.tail_slots([pages.tail for pages in sequences])
        self._slots: Tensor | None = None
        if all(row.is_dense and (pool.num_resident[row.pages] == pool.num_layers).all() for row in self._rows):
            self._prepare_together()

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        pool, rope, kernels = self._pool, self._rope, self._kernels
        tails = self._tail_slots[layer]
        page_angles = rope.cos[: pool.page_size], rope.sin[: pool.page_size]
        kernels.write_kv(pool.tails, tails, self._offsets, k, v, *page_angles)
        if self._slots is not None:
            self._attend(q, self._slots[layer], self._distances, self._counts, self._state, True)
        else:
            for index, row in enumerate(self._rows):
                state = rows_of(self._state, index, index + 1)
                self._read(layer, q[index : index + 1], row.pages, row.distances, state, fresh=True)
                if isinstance(row, SparseRow) and row.num_far:
                    chosen = self._select(layer, q[index : index + 1], row, state)
                    pages, distances = row.far[chosen], row.far_distances[chosen]
                    self._read(layer, q[index : index + 1], pages, distances, state, fresh=False, selected=True)
                self._foresee(layer + 1, row)
        return kernels.attend_tail(
            q, pool.tails, pool.layout, tails, self._tail_tokens, rope.cos, rope.sin, self._scale, self._state
        )

    def _foresee(self, layer: int, row: DenseRow | SparseRow) -> None:
        """What the next layer reads first: its pages in order, or probably those it chose for the last token."""
        if layer == self._pool.num_layers:
            return
        if isinstance(row, DenseRow):
            self._tiers.expect(layer, row.pages[:GROUP_PAGES])
        elif layer in row.sequence.selected:
            self._tiers.expect(layer, row.sequence.selected[layer])

    def _prepare_together(self) -> None:
        """Tables of all rows at once, for when everything they read is on the device."""
        device, counts = self._pool.slab.device, [len(row.pages) for row in self._rows]
        padded = np.zeros((2, len(counts), max(1, *counts)), dtype=np.int64)
        for index, row in enumerate(self._rows):
            padded[0, index, : counts[index]] = row.pages
            padded[1, index, : counts[index]] = row.distances
        if self._pool.slots.shape[1]:
            self._slots = self._pool.table(padded[0])
            self._distances = torch.from_numpy(padded[1].astype(np.int32)).to(device)
            self._counts = torch.tensor(counts, dtype=torch.int32, device=device)

    def _read(
        self,
        layer: int,
        q: Tensor,
        pages: Ids,
        distances: Ids,
        state: AttentionState,
        *,
        fresh: bool,
        selected: bool = False,
    ) -> None:
        """One row's pages, a group at a time, from wherever they are."""
        load = self._tiers.load_selected if selected else self._tiers.load
        for first in range(0, max(1, len(pages)), GROUP_PAGES):
            group = slice(first, first + GROUP_PAGES)
            slots = torch.from_numpy(load(layer, pages[group]).astype(np.int32)).to(q.device)[None]
            far = torch.from_numpy(distances[group].astype(np.int32)).to(q.device)[None]
            count = torch.tensor([slots.shape[1]], dtype=torch.int32, device=q.device)
            if not selected and first + GROUP_PAGES < len(pages):
                self._tiers.expect(layer, pages[first + GROUP_PAGES : first + 2 * GROUP_PAGES])
            self._attend(q, slots, far, count, state, fresh and first == 0)

    def _select(self, layer: int, q: Tensor, row: SparseRow, state: AttentionState) -> Ids:
        """Indices of the far pages that this layer reads for a row, by what its other pages gave already."""
        read = (state.highest + torch.log(state.total))[:, None]
        distances = row.far_angles(q.device)
        chosen, counts = select(
            self._kernels, self._tiers, row.plan, layer, q[:, None], row.sequence, [row.num_far], distances,
            self._rope, self._scale, read,
        )  # fmt: skip
        indices: Ids = chosen[0, : int(counts[0])].cpu().numpy().astype(np.int64)
        row.sequence.selected[layer] = row.far[indices]
        return indices

    def _attend(
        self, q: Tensor, slots: Tensor, distances: Tensor, counts: Tensor, state: AttentionState, fresh: bool
    ) -> None:
        pool, rope = self._pool, self._rope
        self._kernels.attend_pages(
            q, pool.slab, pool.layout, slots, distances, counts, rope.cos, rope.sin, self._scale, state, fresh
        )


class DenseRow:
    """A position that reads every page before it."""

    is_dense = True

    def __init__(self, position: int, sequence: SequencePages, page_size: int) -> None:
        self.pages: Ids = np.array(sequence.page_ids, dtype=np.int64)
        self.distances: Ids = position - np.arange(len(self.pages)) * page_size


class SparseRow:
    """A position that reads the first page, its window, and what each layer selects of the `far` pages between."""

    is_dense = False

    def __init__(self, position: int, sequence: SequencePages, page_size: int, plan: ReadingPlan) -> None:
        ids: Ids = np.array(sequence.page_ids, dtype=np.int64)
        distances: Ids = position - np.arange(len(ids)) * page_size
        first = plan.first_of_window(len(ids))
        self._is_past = position >= plan.trained
        if self._is_past:
            distances[:first] = plan.far_distance
        self.plan, self.sequence = plan, sequence
        self.pages: Ids = np.concatenate((ids[:1], ids[first:]))
        self.distances: Ids = np.concatenate((distances[:1], distances[first:]))
        self.far, self.far_distances, self.num_far = ids[1:first], distances[1:first], max(0, first - 1)

    def far_angles(self, device: torch.device) -> Tensor:
        """Distances of the far pages as `select_pages` takes them: one for all, or each its own."""
        assert self.sequence.far is not None
        if self._is_past:
            return torch.tensor([self.plan.far_distance], dtype=torch.int32, device=device)
        distances = np.zeros((1, len(self.sequence.far.ids)), dtype=np.int32)
        distances[0, : self.num_far] = self.far_distances
        return torch.from_numpy(distances).to(device)


def select(
    kernels: Kernels,
    tiers: Tiers,
    plan: ReadingPlan,
    layer: int,
    q: Tensor,
    sequence: SequencePages,
    num_far: list[int],
    distances: Tensor,
    rope: RopeTable,
    scale: float,
    read: Tensor,
) -> tuple[Tensor, Tensor]:
    """Far pages that rows of one sequence read in a layer: see `select_pages_torch`."""
    assert tiers.bounds is not None
    assert sequence.far is not None
    limits = SelectionLimits(plan.floor_pages, plan.cap_pages, plan.mass_target)
    return kernels.select_pages(
        q,
        tiers.bounds.table[layer],
        sequence.far.sections[layer],
        tiers.bounds.layout,
        sequence.far.ids,
        torch.tensor(num_far, dtype=torch.int32, device=q.device),
        distances,
        rope.cos,
        rope.sin,
        scale,
        read,
        limits,
        tiers.bounds.scratch,
    )


def rows_of(state: AttentionState, first: int, end: int) -> AttentionState:
    """The part of a state that belongs to some of its sequences, in place."""
    return AttentionState(state.highest[first:end], state.total[first:end], state.values[first:end])
