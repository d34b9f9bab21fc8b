"""Bounds of every page that has an id, and the sections of a sequence's pages: what selection looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.huge_pages import huge_zeros
from octavo.engine.kernels.bounds import PageBounds
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.select import SelectionScratch
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import PageLayout
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.pools import Ids


class BoundsTable:
    """Boxes uint8 `[num_layers, capacity, box_bytes]` and sketches uint8 `[num_layers, capacity, sketch_bytes]`, on the
    device. There is room for `num_pages` from the start; where there are more page ids the tables grow, which takes a
    moment."""

    def __init__(
        self, layout: BoundsLayout, pages: PageLayout, num_layers: int, num_pages: int, kernels: Kernels, device: str
    ) -> None:
        self.layout = layout
        self.scratch = SelectionScratch()
        self._pages = pages
        self._kernels = kernels
        self.boxes = torch.empty(num_layers, 0, layout.box_bytes, dtype=torch.uint8, device=device)
        self.sketches = torch.empty(num_layers, 0, layout.sketch_bytes, dtype=torch.uint8, device=device)
        self.resize(num_pages)

    @property
    def nbytes(self) -> int:
        return self.boxes.nbytes + self.sketches.nbytes

    @property
    def page_nbytes(self) -> int:
        """Bytes of a page's bounds in all layers."""
        return len(self.boxes) * self.layout.page_bytes

    def of_layer(self, layer: int) -> PageBounds:
        return PageBounds(self.boxes[layer], self.sketches[layer])

    def resize(self, capacity: int) -> None:
        have = self.boxes.shape[1]
        if capacity > have:
            room = max(capacity, 2 * have, 64)
            self.boxes, self.sketches = _grown(self.boxes, room), _grown(self.sketches, room)

    def compute(self, layer: int, pages: Sequence[PageId], encoded: Tensor) -> None:
        """Of one layer of pages, from their bytes uint8 `[len(pages), slot_bytes]`."""
        self._put(layer, torch.tensor(pages), self._kernels.page_bounds(encoded, self._pages, self.layout))

    def of(self, page: PageId) -> NDArray[np.uint8]:
        """The bytes of a page's bounds, layer by layer, to be kept beside the page."""
        of_layers = torch.cat((self.boxes[:, page], self.sketches[:, page]), dim=1)
        array: NDArray[np.uint8] = of_layers.cpu().numpy().reshape(-1)
        return array

    def restore(self, page: PageId, data: Tensor) -> None:
        """What `of` gave, uint8 `[num_layers * page_bytes]`."""
        self._put(slice(None), page, data.view(len(self.boxes), -1).to(self.boxes.device))

    def _put(self, layer: int | slice, page: Tensor | int, bounds: Tensor) -> None:
        """`bounds` uint8 `[..., page_bytes]` of one layer of pages, or all layers of a page."""
        self.boxes[layer, page] = bounds[..., : self.layout.box_bytes]
        self.sketches[layer, page] = bounds[..., self.layout.box_bytes :]


def _grown(table: Tensor, capacity: int) -> Tensor:
    """`table` with room for more pages."""
    layers, have, size = table.shape
    with torch.inference_mode(False):  # it is written to outside of steps, too
        if table.device.type == "cpu":
            grown = huge_zeros(layers * capacity * size).view(layers, capacity, size)
        else:
            grown = torch.empty(layers, capacity, size, dtype=torch.uint8, device=table.device)
    grown[:, :have] = table
    return grown


@dataclass(slots=True, eq=False)
class FarPages:
    """The complete pages of a sequence after its first, and the bounds of their sections in every layer.

    `ids` is int32 `[p]`, `sections` uint8 `[num_layers, ceil(p / 16), section_bytes]`; `on_host` are the ids in RAM.
    """

    ids: Tensor
    sections: Tensor
    on_host: Ids = field(init=False, default_factory=lambda: np.zeros(0, np.int64))
    _followed: list[PageId] = field(init=False, default_factory=list)

    @classmethod
    def none(cls, num_layers: int, layout: BoundsLayout, device: torch.device) -> FarPages:
        ids = torch.empty(0, dtype=torch.int32, device=device)
        return cls(ids, torch.empty(num_layers, 0, layout.section_bytes, dtype=torch.uint8, device=device))

    def follow(self, page_ids: list[PageId], bounds: BoundsTable, kernels: Kernels) -> None:
        """Take note of the pages that were added since, or taken back."""
        if page_ids == self._followed:
            return
        on_host: Ids = np.array(page_ids[1:], dtype=np.int64)
        both = min(len(on_host), len(self.on_host))
        differs = np.flatnonzero(on_host[:both] != self.on_host[:both])
        same = int(differs[0]) if len(differs) else both
        whole = same // SECTION_PAGES
        ids = torch.from_numpy(on_host.astype(np.int32)).to(self.ids.device)
        new = torch.stack(
            [
                kernels.section_bounds(bounds.boxes[layer], bounds.layout, ids[whole * SECTION_PAGES :])
                for layer in range(len(self.sections))
            ]
        )
        self.ids, self.sections = ids, torch.cat((self.sections[:, :whole], new), dim=1)
        self.on_host, self._followed = on_host, list(page_ids)
