"""A page map in cells of a screen: how many pages a cell stands for, and what the cells show. Numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from octavo.engine.inspection import PageMap

Metric = Literal["tier", "last use", "selected", "worth", "newest", "precision"]
METRICS: tuple[Metric, ...] = ("tier", "last use", "selected", "worth", "newest", "precision")
SECTION = 16
LEVELS = 9
"""Levels of everything that is not a tier: 0 is nothing, 8 the most."""
DEVICE, UNFINISHED = 3, 4
"""The nearest tier, and that of a page being filled, which counts as the nearest in a cell with others."""

Cells = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class View:
    """`rows` x `columns` cells; the first shows `per_cell` pages from `first` on, of as many layers as fit."""

    rows: int
    columns: int
    per_cell: int
    first: int

    def page_of(self, column: int) -> int:
        return self.first + column * self.per_cell

    def layers_of(self, row: int, num_layers: int) -> range:
        """The layers that a row stands for."""
        return range(row * num_layers // self.rows, max((row + 1) * num_layers // self.rows, 1))


def zooms(num_pages: int, columns: int) -> list[int]:
    """Pages a cell may stand for, from one page to all of them on one screen; a section is among them."""
    steps = [1, 4, SECTION]
    while steps[-1] * max(columns, 1) < num_pages:
        steps.append(steps[-1] * 4)
    fitting = next((at for at, step in enumerate(steps) if step * max(columns, 1) >= num_pages), len(steps) - 1)
    return steps[: max(fitting, 2) + 1]


def cells(pages: PageMap, metric: Metric, view: View) -> Cells:
    """What each cell shows, uint8 `[rows, columns that have pages]`: of a tier 0 to 4, of anything else 0 to 8.

    A cell of many pages and layers shows their mean, of selections the most.
    """
    last = min(view.first + view.columns * view.per_cell, pages.num_pages)
    if last <= view.first:
        return np.zeros((view.rows, 0), np.uint8)
    part = slice(view.first, last)
    starts = np.arange(0, last - view.first, view.per_cell)
    bands = np.array([view.layers_of(row, pages.num_layers).start for row in range(view.rows)])
    fold = np.maximum if metric in ("selected", "newest") else np.add
    folded = _values(pages, metric, part)
    if view.rows < pages.num_layers:
        folded = fold.reduceat(folded, bands, axis=0)
    if view.per_cell > 1:
        folded = fold.reduceat(folded, starts, axis=1)
    if fold is np.add:
        heights = np.diff(np.append(bands, pages.num_layers))[:, None]
        widths = np.diff(np.append(starts, last - view.first))[None, :]
        folded = folded / (heights * widths)
    elif metric == "selected":
        most = float(np.log2(1.0 + pages.selected.max(initial=0)))
        folded = np.log2(1.0 + folded) * ((LEVELS - 1) / max(most, 1e-9))
    most_shown = DEVICE if metric == "tier" else LEVELS - 1
    shown: Cells = np.clip(np.where((folded > 0) & (folded < 1), 1, np.rint(folded)), 0, most_shown).astype(np.uint8)
    if metric == "tier" and view.per_cell == 1 and last == pages.num_pages:
        shown[(pages.tier[:, -1] == UNFINISHED)[bands], -1] = UNFINISHED
    return shown


def _values(pages: PageMap, metric: Metric, part: slice) -> NDArray[Any]:
    """The metric of every layer of every page, on the scale of the levels; of selections how many there were."""
    if metric == "tier":
        return np.minimum(pages.tier[:, part], DEVICE).astype(np.float32)
    if metric == "newest":
        return pages.chosen[:, part].astype(np.uint8) * np.uint8(LEVELS - 1)
    if metric == "precision":
        return _precision(pages)[:, part]
    if metric == "worth":
        most = max(float(pages.worth.max(initial=0)), 1e-9)
        return pages.worth[:, part] * np.float32((LEVELS - 1) / most)
    if metric == "selected":
        return pages.selected[:, part]
    ages = pages.age[:, part].astype(np.float32)
    fresh = (LEVELS - 1) * (1 - np.log2(1 + np.maximum(ages, 0)) / 20)  # a million reads ago is long
    return np.where(ages < 0, np.float32(0), np.maximum(fresh, 1))


def _precision(pages: PageMap) -> NDArray[np.float32]:
    """Bits of a key and a value; an unfinished page is kept as it was computed, or not at all."""
    shown = np.full(pages.tier.shape, min((pages.key_bits + pages.value_bits) / 4, LEVELS - 1), np.float32)
    if pages.tail_tokens:
        shown[:, -1] = min(pages.tail_bits / 2, LEVELS - 1) if pages.is_running else 0
    return shown


def counts_by_tier(pages: PageMap) -> tuple[int, int, int, int]:
    """Complete pages on the device (in every layer), partly there, on a lower tier alone, and nowhere."""
    tier = pages.tier[:, : pages.num_complete]
    on_device = np.count_nonzero(tier == DEVICE, axis=0)
    whole = int((on_device == pages.num_layers).sum())
    partly = int(((on_device > 0) & (on_device < pages.num_layers)).sum())
    below = int(((on_device == 0) & (tier.max(axis=0, initial=0) > 0)).sum())
    return whole, partly, below, pages.num_complete - whole - partly - below
