"""The device tier: who gets its slots, and who gives way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from octavo.engine.kv.pages import PageId
from octavo.engine.kv.pools import NOWHERE, Ids
from octavo.engine.kv.residency import Residency


class DeviceTier:
    """Slots of one layer of a page each, in a DevicePool.

    A slot is clean: whatever lies in it also lies in a host row or in the store, so that evicting is forgetting a
    number. Only a page that is being filled, or that no tier below could take, is on the device alone; that one stays
    until nobody references it. TwoFactor chooses the victims, layer by layer; pinned pages give way when no others can.
    """

    def __init__(self, residency: Residency) -> None:
        self._residency = residency
        self._pool = residency.device

    def make_room(self, count: int, *, for_reading: bool = False) -> int:
        """Evict until `count` slots are free, or nothing more can go; returns how many of them are.

        What need not stay, because it can be read where it passes through, pushes out no pinned page: `for_reading`.
        """
        residency = self._residency
        if count > self._pool.num_free:
            self._evict(count - self._pool.num_free, pinned_too=not for_reading)
        if count > self._pool.num_free and (not residency.host.num_rows or residency.counters.not_written):
            self._drop_cached(count, pinned_too=not for_reading)
        return min(count, self._pool.num_free)

    def place_whole(self, pages: Ids) -> None:
        """Slots in every layer for pages that have none."""
        num_layers = self._pool.num_layers
        self._pool.place(np.tile(np.arange(num_layers), len(pages)), np.repeat(pages, num_layers))

    @contextmanager
    def filling(self, layers: Ids, pages: Ids) -> Iterator[Ids]:
        """Free slots for `layers[i]` of `pages[i]`, to be written to; they are given back if that fails."""
        slots = self._pool.place(layers, pages)
        try:
            yield slots
        except BaseException:
            self._pool.vacate(slots)
            raise

    def complete(self, page: PageId, data: Tensor) -> None:
        """Write the layers of a page that have no slot yet, from uint8 `[num_layers or more, slot_bytes]`."""
        num_layers = self._pool.num_layers
        layers = np.flatnonzero(self._pool.slots[:, page] == NOWHERE)
        # Picking layers is a copy of its own, and a slow one: mostly all of them are missing.
        missing = data[:num_layers] if len(layers) == num_layers else data[torch.from_numpy(layers)]
        with self.filling(layers, np.full(len(layers), page)) as slots:
            self._pool.write(slots, missing)

    def place_in_ram(self, page: PageId) -> Tensor | None:
        """Slots of all layers of a page that has none, uint8 `[num_layers, slot_bytes]`, to read the page to.

        None, with nothing placed, where they are not one piece of RAM. `vacate` gives them back.
        """
        num_layers = self._pool.num_layers
        if self._pool.num_resident[page]:
            return None
        slots = self._pool.place(np.arange(num_layers), np.full(num_layers, page))
        memory = self._pool.run_of(slots)
        if memory is None:
            self._pool.vacate(slots)
        return memory

    def vacate(self, page: PageId) -> None:
        self._pool.vacate_page(page)

    def put(self, layer: int, pages: Ids, encoded: Tensor) -> None:
        """Write one layer of pages, as far as they have slots: `encoded` uint8 `[len(pages), slot_bytes]`."""
        slots = self._pool.slots[layer, pages].astype(np.int64)
        placed = np.flatnonzero(slots != NOWHERE)
        if len(placed) == len(slots):
            self._pool.write(slots, encoded)
        elif len(placed):
            self._pool.write(slots[placed], encoded[torch.from_numpy(placed)])

    def give_up(self, pages: Ids) -> int:
        """Forget those of unreferenced pages that lie below, too, and are not pinned; how many slots became free."""
        residency, pool, before = self._residency, self._pool, self._pool.num_free
        pages, _ = residency.last_pinned(pages)
        pages = pages[residency.has_row(pages) | residency.stored[pages]]
        keys = pool.resident_keys(pages)
        if keys.size:
            residency.counters.evicted_from_device += len(keys)
            residency.released(map(int, pool.vacate(pool.slots_of_keys(keys))))
        return pool.num_free - before

    def _evict(self, count: int, *, pinned_too: bool) -> None:
        """Forget up to `count` layers of pages that lie somewhere below, too."""
        residency, pool = self._residency, self._pool
        pages = np.flatnonzero((pool.num_resident > 0) & ~residency.in_step)
        pages = pages[residency.has_row(pages) | residency.stored[pages]]
        for candidates in residency.last_pinned(pages)[: 2 if pinned_too else 1]:
            keys = pool.resident_keys(candidates)
            if count > 0 and keys.size:
                victims = residency.slot_policy.victims(keys, min(count, len(keys)))
                residency.counters.evicted_from_device += len(victims)
                residency.released(map(int, pool.vacate(pool.slots_of_keys(victims))))
                count -= len(victims)

    def _drop_cached(self, count: int, *, pinned_too: bool) -> None:
        """Give up pages that may be nowhere else and that nobody references, the stalest first."""
        residency = self._residency
        for page in list(residency.stalest()):
            if self._pool.num_free >= count or (residency.pinned[page] and not pinned_too):
                return
            if residency.in_step[page] or page in residency.being_written or not self._pool.num_resident[page]:
                continue
            residency.counters.evicted_from_device += int(self._pool.num_resident[page])
            residency.discard(page)
