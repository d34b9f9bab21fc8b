"""The device tier: one slab of slots, allocated once, and the table that says which slot holds which page.

A slot holds K and V of one page in one layer: `[2, kv_heads, page_size, head_dim]`, K rotated only by each token's
offset inside its page, so that the bytes do not depend on where the page stands. Residency is kept per layer,
`slots[layer, page]`, because layers will read different pages and so keep different pages near; as long as this is
the only tier, a page takes a slot in every layer when it is allocated and keeps them until it is evicted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.kv.pages import PageId
from octavo.engine.model.spec import ModelSpec

NOT_RESIDENT = -1


class DevicePool:
    """Slab and residency of `num_pages` pages of `num_layers` layers.

    `slab`: `[num_slots, 2, kv_heads, page_size, head_dim]`. `slots`: int32 `[num_layers, num_pages]`, a slot number
    or NOT_RESIDENT.
    """

    def __init__(self, spec: ModelSpec, num_pages: int, page_size: int, dtype: torch.dtype, device: str) -> None:
        num_slots = num_pages * spec.num_layers
        self.slab = torch.empty(num_slots, 2, spec.num_kv_heads, page_size, spec.head_dim, dtype=dtype, device=device)
        self.slots: Tensor = torch.full((spec.num_layers, num_pages), NOT_RESIDENT, dtype=torch.int32)
        self._free = list(range(num_slots - 1, -1, -1))

    @property
    def page_size(self) -> int:
        return self.slab.shape[3]

    @property
    def num_slots(self) -> int:
        return self.slab.shape[0]

    @property
    def num_free(self) -> int:
        return len(self._free)

    def place(self, page: PageId) -> None:
        """Give `page` a slot in every layer, unless it has them."""
        if int(self.slots[0, page]) != NOT_RESIDENT:
            return
        taken = [self._free.pop() for _ in range(self.slots.shape[0])]
        self.slots[:, page] = torch.tensor(taken, dtype=torch.int32)

    def resident(self, pages: Tensor) -> Tensor:
        """Slots of `pages` (int64 `[...]`) in every layer: int32 `[num_layers, ...]`, on the slab's device."""
        return self.slots[:, pages].to(self.slab.device)


def page_bytes(spec: ModelSpec, page_size: int, bytes_per_value: float) -> int:
    """KV bytes of one page in all layers."""
    return int(2 * spec.num_layers * spec.num_kv_heads * spec.head_dim * page_size * bytes_per_value)
