"""Attention of one new token for each of several sequences over KV pages.

Keys in a page are rotated by their offset inside it, so the query is rotated once a page, by the distance from the
page's start. Pages are taken in fixed groups, in page order, whether they are on the device or pass through it:
results do not depend on budgets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.config import GROUP_PAGES
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.select import CANDIDATES
from octavo.engine.kv.candidates import Candidates
from octavo.engine.kv.pools import DevicePool, Ids
from octavo.engine.kv.sequence_pages import SequencePages


@dataclass(frozen=True, slots=True, eq=False)
class PageTables:
    """What n rows read: int32 slots [layers, n, pages], distances [n, pages] and numbers of pages [n]."""

    slots: Tensor
    distances: Tensor
    counts: Tensor


class DecodeAttention:
    """One new token for each of several sequences; holds the page tables of one step.

    For each row: the slots of its unfinished page in every layer `tail_slots` int32 [layers, n], the place of the new
    token there `offsets`, and how many tokens there are then `tail_tokens`, int32 [n]; `together` are the tables of all
    rows, where all that they read is on the device and none selects.

    `positions[i]` is the position of the token that row i computes; its page is the tail of `sequences[i]`.
    `state` is memory for at least as many rows.
    """

    def __init__(
        self, setup: AttentionSetup, positions: list[int], sequences: list[SequencePages], state: AttentionState
    ) -> None:
        pool = setup.pool
        self._setup, self._tiers, self._pool = setup, setup.tiers, pool
        self.state = _rows_of(state, 0, len(positions))
        self._rows = [
            Row(position, pages, pool, setup.plan) for position, pages in zip(positions, sequences, strict=True)
        ]
        offsets = torch.tensor([position % pool.page_size for position in positions], dtype=torch.int32)
        self.offsets = offsets.to(pool.slab.device)
        self.tail_tokens = self.offsets + 1
        self.tail_slots = pool.tail_slots([pages.tail for pages in sequences])
        self.together: PageTables | None = None
        are_there = all((pool.num_resident[row.pages] == pool.num_layers).all() for row in self._rows)
        if are_there and pool.slots.shape[1] and not any(row.selects for row in self._rows):
            self.together = self._tables()

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        pool, setup = self._pool, self._setup
        tails = self.tail_slots[layer]
        setup.kernels.write_kv(pool.tails, tails, self.offsets, k, v, *setup.page_angles)
        self.read_pages(layer, q)
        return setup.kernels.attend_tail(
            q, pool.tails, pool.layout, tails, self.tail_tokens, setup.rope.cos, setup.rope.sin, setup.scale,
            self.state,
        )  # fmt: skip

    def read_pages(self, layer: int, q: Tensor) -> None:
        """Attention of all rows over their complete pages, into the state."""
        if self.together is not None:
            table = self.together
            self._attend(q, table.slots[layer], table.distances, table.counts, self.state, True)
            return
        for index, row in enumerate(self._rows):
            self._read_row(layer, q[index : index + 1], row, _rows_of(self.state, index, index + 1))

    def _tables(self) -> PageTables:
        """Of all rows at once, when everything they read is on the device."""
        device, counts = self._pool.slab.device, [len(row.pages) for row in self._rows]
        padded = np.zeros((2, len(counts), max(1, *counts)), dtype=np.int64)
        for index, row in enumerate(self._rows):
            padded[0, index, : counts[index]] = row.pages
            padded[1, index, : counts[index]] = row.distances
        self._tiers.counters.layer_reads += sum(counts) * self._pool.num_layers
        return PageTables(
            self._pool.table(padded[0]),
            torch.from_numpy(padded[1].astype(np.int32)).to(device),
            torch.tensor(counts, dtype=torch.int32, device=device),
        )

    def _read_row(self, layer: int, q: Tensor, row: Row, state: AttentionState) -> None:
        """All complete pages of one row, from wherever they are."""
        if row.slots is not None:
            self._tiers.counters.layer_reads += len(row.pages)
            self._attend(q, row.slots[layer], row.distance_table, row.count, state, True)
        else:
            self._stream_row(layer, q, row, state)
        if row.num_far:
            self._read_selected(layer, q, row, self._select(layer, q, row, state), state)
            if layer == self._pool.num_layers - 1:
                row.candidates.end_token(row.due, row.num_far)
        self._foresee(layer + 1, row)

    def _read_selected(self, layer: int, q: Tensor, row: Row, chosen: Ids, state: AttentionState) -> None:
        slots = self._tiers.load_selected(layer, row.far[chosen])
        self._attend_group(q, slots, row.distances_of(chosen), state, fresh=False)

    # Where the C code does the rest

    @property
    def selecting(self) -> Row | None:
        """The one row there is, where it selects, and all that it reads always is on the device."""
        row = self._rows[0]
        return row if len(self._rows) == 1 and row.slots is not None else None

    def read_selected(self, layer: int, q: Tensor, chosen: Ids) -> None:
        """What a layer of that row selected, from wherever it is."""
        row = self._rows[0]
        row.chose(layer, chosen)
        self._read_selected(layer, q, row, chosen, self.state)
        self._foresee(layer + 1, row)

    def note_read(self) -> None:
        """All layers of that row read what it always reads."""
        self._tiers.counters.layer_reads += len(self._rows[0].pages) * self._pool.num_layers

    def note_selected(self, layers: Ids, chosen: NDArray[np.int32], counts: NDArray[np.int32]) -> None:
        """What `layers` [n] of that row selected and found on the device: of `chosen` [n, cap], `counts` [n] each."""
        row = self._rows[0]
        indices: Ids = chosen[np.arange(chosen.shape[1]) < counts[:, None]].astype(np.int64)
        pages: Ids = row.far[indices]
        for layer, count, end in zip(layers.tolist(), counts.tolist(), np.cumsum(counts).tolist(), strict=True):
            row.sequence.selected[layer] = pages[end - count : end]
        row.sequence.count_reads(1 + indices)
        self._tiers.note_selected(np.repeat(layers, counts), pages)

    def _stream_row(self, layer: int, q: Tensor, row: Row, state: AttentionState) -> None:
        """The pages that a row reads always, of which not all are on the device."""
        for first in range(0, max(1, len(row.pages)), GROUP_PAGES):
            group, following = slice(first, first + GROUP_PAGES), slice(first + GROUP_PAGES, first + 2 * GROUP_PAGES)
            slots = self._tiers.load(layer, row.pages[group])
            if len(row.pages[following]):
                self._tiers.expect(layer, row.pages[following])
            self._attend_group(q, slots, row.distances[group], state, fresh=first == 0)

    def _foresee(self, layer: int, row: Row) -> None:
        """What the next layer reads first: its pages in order, or probably those it chose for the last token."""
        if layer == self._pool.num_layers:
            return
        if not row.selects:
            self._tiers.expect(layer, row.pages[:GROUP_PAGES])
        elif layer in row.sequence.selected:
            self._tiers.expect(layer, row.sequence.selected[layer])

    def _select(self, layer: int, q: Tensor, row: Row, state: AttentionState) -> Ids:
        """Indices of the far pages that this layer reads for a row, by what its other pages gave already."""
        setup, candidates = self._setup, row.candidates
        q, read = q[:, None], setup.log_sums(state)[:, None]
        if row.due[layer]:
            looked_at = candidates.looked_at[layer : layer + 1]
            chosen, counts = setup.select_far(
                layer, q, row.sequence, row.far_count, row.far_angles, read, setup.token_limits, looked_at
            )
        else:
            again = candidates.again(layer, row.num_far)
            chosen, counts = setup.select_again(layer, q, row.sequence, again, row.far_angles, read)
        indices: Ids = chosen[0, : int(counts[0])].cpu().numpy().astype(np.int64)
        row.chose(layer, indices)
        return indices

    def _attend_group(self, q: Tensor, slots: Ids, distances: Ids, state: AttentionState, *, fresh: bool) -> None:
        """One row over a group of pages."""
        slot_row = torch.from_numpy(slots.astype(np.int32)).to(q.device)[None]
        distance_row = torch.from_numpy(distances.astype(np.int32)).to(q.device)[None]
        count = torch.tensor([len(slots)], dtype=torch.int32, device=q.device)
        self._attend(q, slot_row, distance_row, count, state, fresh)

    def _attend(
        self, q: Tensor, slots: Tensor, distances: Tensor, counts: Tensor, state: AttentionState, fresh: bool
    ) -> None:
        pool, rope, setup = self._pool, self._setup.rope, self._setup
        setup.kernels.attend_pages(
            q, pool.slab, pool.layout, slots, distances, counts, rope.cos, rope.sin, setup.scale, state, fresh
        )


class Row:
    """What one position reads: `pages` always, and what each layer selects of the `far` pages, if it `selects`.

    A dense position reads every page before it; any other the first page and its window, and the far ones lie between;
    layers that are `due` bool [num_layers] weigh all of them, others look at their `candidates` again.
    Where all of `pages` are on the device, `slots` int32 `[num_layers, 1, pages]` says where, with `distance_table`
    and `count` beside it: they stay there for the step.
    """

    def __init__(self, position: int, sequence: SequencePages, pool: DevicePool, plan: ReadingPlan) -> None:
        page_ids = sequence.page_ids
        self.selects = not plan.is_dense(position)
        first = plan.first_of_window(len(page_ids)) if self.selects else 1
        self._plan = plan
        self._is_past = self.selects and position >= plan.trained
        self._window = position - first * pool.page_size  # distance of its beginning
        distances: Ids = position - np.arange(len(page_ids)) * pool.page_size
        if self._is_past:
            distances[:first] = plan.far_end + self._window if plan.closed_up else plan.far_distance
        self.sequence = sequence
        self.pages: Ids = np.array(page_ids[:1] + page_ids[first:], dtype=np.int64)
        self.distances: Ids = np.concatenate((distances[:1], distances[first:]))
        self.far: Ids = np.zeros(0, dtype=np.int64)
        if first > 1:
            assert sequence.far is not None
            self.far = sequence.far.on_host[: first - 1]
        self.far_distances = distances[1:first]
        self.slots: Tensor | None = None
        if self.selects and (pool.num_resident[self.pages] == pool.num_layers).all():
            self.slots = pool.table(self.pages[None])
            self.distance_table = _int32(self.distances, pool)[None]
            self.count = _int32(np.array([len(self.pages)]), pool)
        if self.far.size:
            self.far_count, self.far_angles = _int32(np.array([self.num_far]), pool), self._angles(pool)
            if sequence.candidates is None:
                most = CANDIDATES * plan.cap_pages
                sequence.candidates = Candidates(pool.num_layers, most, pool.slab.device)
            self.candidates = sequence.candidates
            self.due = self.candidates.begin_token(position, self.num_far)

    @property
    def num_far(self) -> int:
        return len(self.far)

    @property
    def window(self) -> int | None:
        """How far away the window begins, where selected pages stand side by side before it."""
        return self._window if self._is_past and self._plan.closed_up else None

    def chose(self, layer: int, indices: Ids) -> None:
        """A layer reads these far pages for the new token."""
        self.sequence.selected[layer] = self.far[indices]
        self.sequence.count_reads(1 + indices)

    def distances_of(self, chosen: Ids) -> Ids:
        """At which distances the far pages with these indices, ascending, are read."""
        if self.window is None:
            return self.far_distances[chosen]
        return self._plan.far_end + self._window - self._plan.far_starts(len(chosen))[1:]

    def _angles(self, pool: DevicePool) -> Tensor:
        """Distances of the far pages as `select_pages` takes them: one for all, or each its own."""
        assert self.sequence.far is not None
        if self._is_past:
            return _int32(np.array([self._plan.far_distance]), pool)
        distances = np.zeros((1, len(self.sequence.far.ids)), dtype=np.int64)
        distances[0, : self.num_far] = self.far_distances
        return _int32(distances, pool)


def _int32(numbers: Ids, pool: DevicePool) -> Tensor:
    return torch.from_numpy(numbers.astype(np.int32)).to(pool.slab.device)


def _rows_of(state: AttentionState, first: int, end: int) -> AttentionState:
    """The part of a state that belongs to some of its sequences, in place."""
    return AttentionState(state.highest[first:end], state.total[first:end], state.values[first:end])
