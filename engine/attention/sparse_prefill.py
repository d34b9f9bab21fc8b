"""A prefill chunk of positions that do not read everything: the first page, a window, and pages that are selected.

Pages of queries select together, each page for itself, so that what a page holds depends on nothing but what came
before it, however the prompt was cut into chunks.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.attention.prefill import PrefillAttention
from octavo.engine.attention.products import attend
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.kernels.select import SelectionLimits
from octavo.engine.kv.pools import Ids
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.model.rope import rotate


class SparsePrefillAttention(PrefillAttention):
    """As PrefillAttention; queries see a band of the pages before them, and read the far pages page by page."""

    def __init__(
        self,
        setup: AttentionSetup,
        start: int,
        length: int,
        pages: SequencePages,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(setup, start, length, pages, dtype)
        plan = setup.plan
        self._plan, self._pages = plan, pages
        self._all: Ids = np.array(pages.page_ids, dtype=np.int64)
        page_size, device = self._pool.page_size, self._pool.slab.device
        self._numbers = range(start // page_size, start // page_size + len(self._staging))  # of the query pages
        self._num_far = [plan.first_of_window(number) - 1 for number in self._numbers]
        self._far_counts = torch.tensor(self._num_far, dtype=torch.int32, device=device)
        self._is_past = [number * page_size >= plan.trained for number in self._numbers]
        self._distances = self._far_distances(device)
        self._limits = self._limits_of_pages()
        self._window_mask = self._mask_of_window(device)  # the same in every layer

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        merged = self._attend_near(layer, q, k, v)
        merged.add(*self._attend_far(layer, q, merged.lse))
        return merged.out.transpose(0, 1)

    def _first_page(self, plan: ReadingPlan, num_past: int) -> int:
        return plan.first_of_window(num_past)

    def _mask_of(self, first: int, count: int) -> Tensor | None:
        page_size = self._pool.page_size
        return self._window_mask[:, first * page_size : (first + count) * page_size]

    def _mask_of_window(self, device: torch.device) -> Tensor:
        """A query sees the pages of its own window, which moves on by a page with every page of queries."""
        page_size, base = self._pool.page_size, self._base // self._pool.page_size
        number = base + torch.arange(len(self._past), device=device).repeat_interleave(page_size)
        window = torch.tensor([self._plan.first_of_window(page) for page in self._numbers], device=device)
        sees = number[None] >= window[self._page_of.long()][:, None]
        mask = torch.zeros(sees.shape, device=device, dtype=self._dtype)
        return mask.masked_fill_(~sees, torch.finfo(self._dtype).min)

    def _attend_far(self, layer: int, q: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
        """The first page and the selected ones: result `[heads, rows, d]` and log-sum-exp `[heads, rows]`."""
        page_size = self._pool.page_size
        chosen, counts = self._select(layer, q, lse)
        out, far_lse = torch.empty(lse.shape + q.shape[-1:], dtype=self._dtype, device=q.device), torch.empty_like(lse)
        for at, number in enumerate(self._numbers):
            rows = slice(at * page_size, min((at + 1) * page_size, self._length))
            numbers = np.concatenate(([0], 1 + chosen[at, : counts[at]]))
            loaded = self._setup.tiers.load_selected(layer, self._all[numbers])
            slots = torch.from_numpy(loaded.astype(np.int32)).to(q.device)
            starts = self._far_starts(numbers, self._is_past[at])
            keys_and_values = self._gather(
                self._pool.slab, self._pool.layout, slots, torch.from_numpy(starts.astype(np.int32)).to(q.device)
            )
            queries = self._far_queries(q[rows], number, self._is_past[at]).to(self._dtype).transpose(0, 1)
            out[:, rows], far_lse[:, rows] = attend(queries, *keys_and_values, self._setup.scale)
        return out, far_lse

    def _select(self, layer: int, q: Tensor, lse: Tensor) -> tuple[Ids, Ids]:
        """Far pages of every page of queries: indices `[pages, cap]`, and how many."""
        page_size = self._pool.page_size
        if not max(self._num_far):
            none = np.zeros(len(self._numbers), dtype=np.int64)
            return none[:, None], none
        pooled, read = [], []
        for at in range(len(self._numbers)):
            rows = slice(at * page_size, min((at + 1) * page_size, self._length))
            # Pages stand at distances from the page of queries; within it, queries differ by their offset.
            queries = q[rows] if self._is_past[at] else self._rotated(q[rows], 0)
            pooled.append(queries.mean(dim=0))
            read.append(lse[:, rows].mean(dim=1))
        parts = [
            self._setup.select_far(
                layer, torch.stack(pooled[rows])[:, None], self._pages, self._far_counts[rows],
                self._distances if len(self._distances) == 1 else self._distances[rows],
                torch.stack(read[rows])[:, None].float(), limits,
            )
            for rows, limits in self._limits
        ]  # fmt: skip
        chosen, counts = (torch.cat(part) for part in zip(*parts, strict=True))
        return chosen.cpu().numpy().astype(np.int64), counts.cpu().numpy().astype(np.int64)

    def _limits_of_pages(self) -> list[tuple[slice, SelectionLimits]]:
        """Pages that the chunk completes read as a prompt does, whatever follows them; the unfinished one, in which
        the answer begins, as much as a new token."""
        whole, every = len(self._own), len(self._numbers)
        ends = (slice(0, whole), self._setup.prefill_limits), (slice(whole, every), self._setup.token_limits)
        return [(rows, limits) for rows, limits in ends if rows.start < rows.stop]

    def _far_distances(self, device: torch.device) -> Tensor:
        if all(self._is_past):
            return torch.tensor([self._plan.far_distance], dtype=torch.int32, device=device)
        assert self._pages.far is not None
        starts = np.arange(1, len(self._pages.far.ids) + 1)
        distances = (np.array(self._numbers)[:, None] - starts) * self._pool.page_size
        distances[np.array(self._is_past)] = self._plan.far_distance
        return torch.from_numpy(distances.clip(min=0).astype(np.int32)).to(device)

    def _far_starts(self, numbers: Ids, is_past: bool) -> Ids:
        """Where the first page and the selected ones begin."""
        if not is_past:
            return numbers * self._pool.page_size
        return self._plan.far_starts(len(numbers) - 1) if self._plan.closed_up else np.zeros_like(numbers)

    def _far_queries(self, q: Tensor, number: int, is_past: bool) -> Tensor:
        """Queries `[rows, heads, d]` of a page, at the angles at which they meet the keys of far pages."""
        page_size = self._pool.page_size
        if not is_past:
            return self._rotated(q, number * page_size)
        if self._plan.closed_up:
            return self._rotated(q, self._plan.far_end + (number - self._plan.first_of_window(number)) * page_size)
        far = self._plan.far_distance
        return rotate(q, self._rope.cos[far], self._rope.sin[far])

    def _rotated(self, q: Tensor, first: int) -> Tensor:
        angles = slice(first, first + len(q))
        return rotate(q, self._rope.cos[angles, None], self._rope.sin[angles, None])
