"""Bounds of every page that has an id, and the sections of a sequence's pages: what selection looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.select import SelectionScratch
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import PageLayout
from octavo.engine.kv.pages import PageId


class BoundsTable:
    """uint8 `[num_layers, capacity, page_bytes]`, on the device; it grows with the page ids."""

    def __init__(self, layout: BoundsLayout, pages: PageLayout, num_layers: int, kernels: Kernels, device: str) -> None:
        self.layout = layout
        self.scratch = SelectionScratch()
        self._pages = pages
        self._kernels = kernels
        self.table = torch.empty(num_layers, 0, layout.page_bytes, dtype=torch.uint8, device=device)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    @property
    def page_nbytes(self) -> int:
        """Bytes of a page's bounds in all layers."""
        return self.table.shape[0] * self.layout.page_bytes

    def resize(self, capacity: int) -> None:
        layers, have, size = self.table.shape
        if capacity > have:
            with torch.inference_mode(False):  # it is written to outside of steps, too
                room = max(capacity, 2 * have, 64)
                grown = torch.empty(layers, room, size, dtype=torch.uint8, device=self.table.device)
            grown[:, :have] = self.table
            self.table = grown

    def compute(self, layer: int, pages: Sequence[PageId], encoded: Tensor) -> None:
        """Of one layer of pages, from their bytes uint8 `[len(pages), slot_bytes]`."""
        self.table[layer, torch.tensor(pages)] = self._kernels.page_bounds(encoded, self._pages, self.layout)

    def of(self, page: PageId) -> NDArray[np.uint8]:
        """The bytes of a page's bounds, layer by layer, to be kept beside the page."""
        array: NDArray[np.uint8] = self.table[:, page].cpu().numpy().reshape(-1)
        return array

    def restore(self, page: PageId, data: Tensor) -> None:
        """What `of` gave, uint8 `[num_layers * page_bytes]`."""
        self.table[:, page] = data.view(self.table.shape[0], -1).to(self.table.device)


@dataclass(slots=True, eq=False)
class FarPages:
    """The complete pages of a sequence after its first, and the bounds of their sections in every layer.

    `ids` is int32 `[p]`, `sections` uint8 `[num_layers, ceil(p / 16), section_bytes]`.
    """

    ids: Tensor
    sections: Tensor

    @classmethod
    def none(cls, num_layers: int, layout: BoundsLayout, device: torch.device) -> FarPages:
        ids = torch.empty(0, dtype=torch.int32, device=device)
        return cls(ids, torch.empty(num_layers, 0, layout.section_bytes, dtype=torch.uint8, device=device))

    def follow(self, page_ids: Sequence[PageId], bounds: BoundsTable, kernels: Kernels) -> None:
        """Take note of the pages that were added since, or taken back."""
        ids = torch.tensor(page_ids[1:], dtype=torch.int32, device=self.ids.device)
        if torch.equal(ids, self.ids):
            return
        both = min(len(ids), len(self.ids))
        differs = torch.nonzero(ids[:both] != self.ids[:both])
        same = int(differs[0]) if len(differs) else both
        whole = same // SECTION_PAGES
        new = torch.stack(
            [
                kernels.section_bounds(bounds.table[layer], bounds.layout, ids[whole * SECTION_PAGES :])
                for layer in range(len(self.sections))
            ]
        )
        self.ids, self.sections = ids, torch.cat((self.sections[:, :whole], new), dim=1)
