"""A page map in cells of a screen: how many pages a cell stands for, and what the cells show. Numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from octavo.engine.inspection import PageMap

Metric = Literal["tier", "last use", "selected", "worth", "newest", "precision"]
METRICS: tuple[Metric, ...] = ("tier", "last use", "selected", "worth", "newest", "precision")
SECTION = 16
LEVELS = 9
"""Levels of everything that is not a tier: 0 is nothing, 8 the most."""

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
    """What each cell shows, uint8 `[rows, columns that have pages]`: of a tier 0 to 3, of anything else 0 to 8.

    A cell of many pages and layers shows their mean, of selections the most.
    """
    last = min(view.first + view.columns * view.per_cell, pages.num_pages)
    if last <= view.first:
        return np.zeros((view.rows, 0), np.uint8)
    part = slice(view.first, last)
    starts = np.arange(0, last - view.first, view.per_cell)
    bands = np.array([view.layers_of(row, pages.num_layers).start for row in range(view.rows)])
    values = _values(pages, metric, part)
    fold = np.maximum if metric in ("selected", "newest") else np.add
    folded = fold.reduceat(fold.reduceat(values, bands, axis=0), starts, axis=1)
    if fold is np.add:
        heights = np.diff(np.append(bands, pages.num_layers))[:, None]
        widths = np.diff(np.append(starts, last - view.first))[None, :]
        folded = folded / (heights * widths)
    most = 3 if metric == "tier" else LEVELS - 1
    shown: Cells = np.clip(np.where((folded > 0) & (folded < 1), 1, np.rint(folded)), 0, most).astype(np.uint8)
    return shown


def _values(pages: PageMap, metric: Metric, part: slice) -> NDArray[np.float64]:
    """The metric of every layer of every page, on the scale of the levels."""
    if metric == "tier":
        return pages.tier[:, part].astype(np.float64)
    if metric == "newest":
        return pages.chosen[:, part].astype(np.float64) * (LEVELS - 1)
    if metric == "precision":
        return np.full(pages.tier[:, part].shape, min((pages.key_bits + pages.value_bits) / 4, LEVELS - 1.0))
    if metric == "worth":
        most = max(float(pages.worth.max(initial=0)), 1e-9)
        worth: NDArray[np.float64] = pages.worth[:, part].astype(np.float64) * ((LEVELS - 1) / most)
        return worth
    if metric == "selected":
        counts: NDArray[np.float64] = np.log2(1.0 + pages.selected[:, part])
        return counts * ((LEVELS - 1) / max(float(np.log2(1.0 + pages.selected.max(initial=0))), 1e-9))
    ages = pages.age[:, part]
    fresh = (LEVELS - 1) * (1 - np.log2(1 + np.maximum(ages, 0)) / 20)  # a million reads ago is long
    return np.where(ages < 0, 0.0, np.maximum(fresh, 1.0))


def counts_by_tier(pages: PageMap) -> tuple[int, int, int, int]:
    """Pages on the device (in every layer), partly there, on a lower tier alone, and nowhere."""
    on_device = (pages.tier == 3).sum(axis=0)
    whole = int((on_device == pages.num_layers).sum())
    partly = int(((on_device > 0) & (on_device < pages.num_layers)).sum())
    below = int(((on_device == 0) & (pages.tier.max(axis=0, initial=0) > 0)).sum())
    return whole, partly, below, pages.num_pages - whole - partly - below
