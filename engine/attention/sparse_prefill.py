"""A prefill chunk of positions that do not read everything: the first page, a window, and pages that are selected.

Pages of queries select together, each page for itself, so that what a page holds does not depend on how the prompt was
cut into chunks, and before the prompt's last pages on nothing but what came before it.
"""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from octavo.engine.attention.chunk_rows import Angles, ChunkRows, NativeRows, Sight
from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.attention.prefill import PrefillAttention
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.kernels.far_rows import ChosenPages
from octavo.engine.kernels.select import SelectionLimits
from octavo.engine.kv.pools import Ids
from octavo.engine.kv.sequence_pages import SequencePages

_ALIKE = 8
"""Neighbouring queries of a prompt's end that one mean stands for. The mean of a whole page misses what single words of
a question ask for (measured: tests/bench/results.md)."""


class _Choice(NamedTuple):
    """How a run of pages of queries chooses: queries of a page, whether they are past the trained length, how much they
    may read, and how many neighbouring ones one mean stands for."""

    pages: slice
    queries: int
    is_past: bool
    limits: SelectionLimits
    alike: int


class SparsePrefillAttention(PrefillAttention):
    """As PrefillAttention; queries see a band of the pages before them, and read the far pages page by page.

    Queries of a page choose together, by their mean. From page number `question` on, None is nowhere, they read as much
    as a question may, and choose by the shares of a few means: that costs more, and finds what single words ask for.
    """

    def __init__(
        self,
        setup: AttentionSetup,
        start: int,
        length: int,
        pages: SequencePages,
        dtype: torch.dtype,
        question: int | None = None,
    ) -> None:
        super().__init__(setup, start, length, pages, dtype)
        plan = setup.plan
        self._plan, self._pages = plan, pages
        self._all: Ids = np.array(pages.page_ids, dtype=np.int64)
        page_size, device = self._pool.page_size, self._pool.slab.device
        self._numbers = range(start // page_size, start // page_size + len(self._staging))  # of the query pages
        self._sizes = [min(page_size, length - at * page_size) for at in range(len(self._numbers))]
        self._num_far = [plan.first_of_window(number) - 1 for number in self._numbers]
        self._far_counts = torch.tensor(self._num_far, dtype=torch.int32, device=device)
        self._is_past = [number * page_size >= plan.trained for number in self._numbers]
        self._distances = self._far_distances(device)
        self._choices = self._choices_of(question)
        self._window_sights: dict[int, Sight] = {}  # by group, the same in every layer

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = self._attend_near(layer, q, k, v, is_last=False)
        self._attend_far(layer, q, rows)
        return rows.result()

    def _first_page(self, plan: ReadingPlan, num_past: int) -> int:
        return plan.first_of_window(num_past)

    def _sight_of(self, first: int, count: int) -> Sight | None:
        """A query sees the pages of its own window, which moves on by a page with every page of queries."""
        if first not in self._window_sights:
            base, page_size = self._base // self._pool.page_size + first, self._pool.page_size
            tokens, device = count * page_size, self._page_of.device
            windows = [(self._plan.first_of_window(page) - base) * page_size for page in self._numbers]
            begin = torch.tensor(windows, dtype=torch.int32, device=device).clamp(0, tokens)[self._page_of.long()]
            self._window_sights[first] = Sight(begin, torch.full_like(begin, tokens), tokens)
        return self._window_sights[first]

    def _attend_far(self, layer: int, q: Tensor, rows: ChunkRows) -> None:
        """The first page and the selected ones of every page of queries."""
        page_size = self._pool.page_size
        chosen, counts = self._select(layer, q, rows.log_sums())
        read = [np.concatenate(([0], 1 + indices[:count])) for indices, count in zip(chosen, counts, strict=True)]
        if isinstance(rows, NativeRows) and self._setup.attend_far is not None:
            self._attend_pages(layer, rows, read)
            return
        for at, (number, numbers) in enumerate(zip(self._numbers, read, strict=True)):
            loaded = self._setup.tiers.load_selected(layer, self._all[numbers])
            slots = torch.from_numpy(loaded.astype(np.int32)).to(q.device)
            starts = torch.from_numpy(self._far_starts(numbers, self._is_past[at]).astype(np.int32)).to(q.device)
            tokens = self._gather(self._pool.slab, self._pool.layout, slots, starts)
            page = slice(at * page_size, at * page_size + self._sizes[at])
            rows.add_far(page, self._far_angles(self._sizes[at], number, self._is_past[at]), tokens)

    def _attend_pages(self, layer: int, rows: NativeRows, read: list[Ids]) -> None:
        """Pages with these numbers, for all pages of queries at once where everything is on the device."""
        tiers, page_size = self._setup.tiers, self._pool.page_size
        starts = [self._far_starts(numbers, is_past) for numbers, is_past in zip(read, self._is_past, strict=True)]
        step = len(read) if tiers.are_on_device(layer, self._all[np.concatenate(read)]) else 1
        for first in range(0, len(read), step):
            some = slice(first, first + step)
            slots = tiers.load_selected(layer, self._all[np.concatenate(read[some])])
            begins = np.cumsum([0, *map(len, read[some])])
            pages = ChosenPages(
                *(torch.from_numpy(x.astype(np.int32)) for x in (slots, np.concatenate(starts[some]), begins))
            )
            rows.add_pages(slice(first * page_size, min((first + step) * page_size, self._length)), self._turns, pages)

    @cached_property
    def _turns(self) -> tuple[Tensor, Tensor]:
        """Cosines and sines of all queries where they meet far pages: float32 `[length, d/2]`."""
        angles = map(self._far_angles, self._sizes, self._numbers, self._is_past)
        tables = [(a.cos.expand(size, -1), a.sin.expand(size, -1)) for a, size in zip(angles, self._sizes, strict=True)]
        cos, sin = (torch.cat(parts) for parts in zip(*tables, strict=True))
        return cos, sin

    def _select(self, layer: int, q: Tensor, lse: Tensor) -> tuple[Ids, Ids]:
        """Far pages of every page of queries: indices `[pages, cap]`, and how many."""
        if not max(self._num_far):
            none = np.zeros(len(self._numbers), dtype=np.int64)
            return none[:, None], none
        parts = []
        for choice in self._choices:
            pooled, read = self._pool_queries(choice, q, lse)
            distances = self._distances if len(self._distances) == 1 else self._distances[choice.pages]
            far_counts = self._far_counts[choice.pages]
            parts.append(self._setup.select_far(layer, pooled, self._pages, far_counts, distances, read, choice.limits))
        width = max(chosen.shape[1] for chosen, _ in parts)
        chosen = torch.cat([pad(chosen, (0, width - chosen.shape[1])) for chosen, _ in parts])
        counts = torch.cat([counts for _, counts in parts])
        return chosen.cpu().numpy().astype(np.int64), counts.cpu().numpy().astype(np.int64)

    def _pool_queries(self, choice: _Choice, q: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
        """Of each page of queries the means `[pages, means, heads, d]`, and of the log-sums `[pages, means, heads]`."""
        page_size, heads, size = self._pool.page_size, q.shape[1], choice.queries
        count = choice.pages.stop - choice.pages.start
        rows = slice(choice.pages.start * page_size, choice.pages.start * page_size + count * size)
        parts = [slice(first, min(first + choice.alike, size)) for first in range(0, size, choice.alike)]
        queries, read = q[rows].view(count, size, heads, -1), lse.t()[rows].reshape(count, size, heads)
        pooled = [
            queries[:, part].mean(dim=1) if choice.is_past else self._mean_of_rotated(queries[:, part], part.start)
            for part in parts
        ]
        return torch.stack(pooled, dim=1), torch.stack([read[:, part].mean(dim=1) for part in parts], dim=1).float()

    def _mean_of_rotated(self, q: Tensor, offset: int) -> Tensor:
        """Of queries `[pages, n, heads, d]`, rotated by their offset in the page, which the first has: pages stand at
        distances from the page of queries.

        What each half of a query adds to either half is summed before they are put together: half the passes.
        """
        angles = Angles(self._rope, offset, q.shape[1])
        cos, sin = (table[:, None] / q.shape[1] for table in (angles.cos, angles.sin))
        own, other = ((q * torch.cat(pair, dim=-1)).sum(dim=1) for pair in ((cos, cos), (sin, -sin)))
        return own + other.roll(q.shape[-1] // 2, dims=-1)

    def _choices_of(self, question: int | None) -> list[_Choice]:
        page_size, setup = self._pool.page_size, self._setup
        is_question = [question is not None and number >= question for number in self._numbers]
        choices, first = [], 0
        for (asks, is_past, size), run in groupby(zip(is_question, self._is_past, self._sizes, strict=True)):
            pages = slice(first, first := first + len(list(run)))
            limits, alike = (setup.question_limits, _ALIKE) if asks else (setup.prompt_limits, page_size)
            choices.append(_Choice(pages, size, is_past, limits, alike))
        return choices

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

    def _far_angles(self, count: int, number: int, is_past: bool) -> Angles:
        """Those at which `count` queries of a page meet the keys of far pages."""
        page_size = self._pool.page_size
        if not is_past:
            return Angles(self._rope, number * page_size, count)
        if self._plan.closed_up:
            first = self._plan.far_end + (number - self._plan.first_of_window(number)) * page_size
            return Angles(self._rope, first, count)
        return Angles(self._rope, self._plan.far_distance, count, alike=True)
