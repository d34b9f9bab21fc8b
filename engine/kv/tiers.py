"""Where the bytes of complete pages are, and how they move: device slots, host rows, the page store below.

Tiers are inclusive and complete pages immutable, so moving up is copying and moving out is forgetting. Nothing here
decides what attention reads: a page that is wanted is found, on whatever tier it is, or reported lost.

    residency.py      which page is where, and what keeps it there
    device_tier.py    slots, and what gives way for others
    host_tier.py      rows, what gives way, and writing down (writer.py has the thread)
    loading.py        bringing pages up (reader.py reads from the store)
    pools.py          the memory itself
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.errors import OutOfPagesError
from octavo.engine.kv.device_tier import DeviceTier
from octavo.engine.kv.eviction import TwoFactor
from octavo.engine.kv.far_pages import BoundsTable
from octavo.engine.kv.host_tier import HostTier
from octavo.engine.kv.loading import Loader
from octavo.engine.kv.pages import PageId, PageTable
from octavo.engine.kv.pools import NOWHERE, DevicePool, HostPool, Ids
from octavo.engine.kv.residency import Residency
from octavo.engine.kv.store import PageSpace


class Tiers:
    """The places of every page of `table`.

    `host` has no rows where pages live on the device alone. `space` is None without a store below; without `writes`
    its pages are only read. `keeps_host` is False where host rows are only the write buffer.
    """

    def __init__(
        self,
        table: PageTable,
        device: DevicePool,
        host: HostPool,
        space: PageSpace | None,
        bounds: BoundsTable | None,
        *,
        writes: bool,
        keeps_host: bool,
    ) -> None:
        self.device = device
        self.host = host
        self.bounds = bounds
        self._residency = Residency(table, device, host, bounds)
        self.counters = self._residency.counters
        self._slots = DeviceTier(self._residency)
        self._rows = HostTier(self._residency, space if writes else None, keeps=keeps_host)
        self._loader = Loader(self._residency, self._slots, self._rows, space)

    @property
    def problems(self) -> list[str]:
        """Sentences about the store that nobody was told yet."""
        return self._residency.problems

    # What a step reads

    def begin_step(self, pages: Ids) -> None:
        """Bring up as many of `pages` as the device holds; they stay until the next step.

        Raises PageLostError.
        """
        self._rows.collect()
        self._residency.begin_step(pages)
        self._loader.begin_step()
        self._loader.promote(pages)

    def load(self, layer: int, pages: Ids) -> Ids:
        """Slots of one layer of up to STREAM_PAGES pages; valid until the next call. Raises PageLostError."""
        return self._loader.load(layer, pages)

    def load_selected(self, layer: int, pages: Ids) -> Ids:
        """`load` for pages that this layer chose: they stay on the device as far as they are worth it."""
        return self._loader.load_selected(layer, pages)

    def are_on_device(self, layer: int, pages: Ids) -> bool:
        """Whether this layer of all these pages is: then `load_selected` takes any number of them."""
        return bool((self.device.slots[layer, pages] != NOWHERE).all())

    def note_selected(self, layers: Ids, pages: Ids) -> None:
        """`layers[i]` chose `pages[i]`, and read it where it is on the device: `load_selected`, without the loading."""
        self._loader.note_selected(layers, pages)

    def expect(self, layer: int, pages: Ids) -> None:
        """Start reading from the store what the next `load` of a layer will probably ask for."""
        self._loader.expect(layer, pages)

    # What a step adds

    def make_places(self, pages: Sequence[PageId]) -> None:
        """Give new pages a row on the host, and slots on the device as far as they go.

        Raises OutOfPagesError when a page would have no place at all.
        """
        self._residency.grow()
        ids = np.asarray(pages, dtype=np.int64)
        self._residency.in_step[ids] = True
        num_layers = self.device.num_layers
        placed = self._slots.make_room(len(ids) * num_layers) // num_layers
        if not self.host.num_rows and placed < len(ids):
            raise OutOfPagesError(f"All {self.device.num_slots // num_layers} KV pages are in use.")
        self._slots.place_whole(ids[:placed])
        self._rows.make_places(pages)

    def put(self, layer: int, pages: Sequence[PageId], encoded: Tensor) -> None:
        """`encoded` uint8 `[len(pages), slot_bytes]`: one layer of pages that have their places."""
        ids = np.asarray(pages, dtype=np.int64)
        self._slots.put(layer, ids, encoded)
        self._rows.put(layer, ids, encoded)
        if self.bounds is not None:
            self.bounds.compute(layer, pages, encoded)

    def completed(self, pages: Sequence[PageId]) -> None:
        """Pages of record whose last layer was put: they are immutable now, and are written down."""
        self._rows.completed(pages)

    def adopt(self, pages: Sequence[PageId]) -> int:
        """New pages of record that lie in the store; returns how many of them, from the first on, can be used."""
        self._residency.grow()
        self._residency.stored[list(pages)] = True
        return self._loader.restore_bounds(pages)

    def pin(self, owners: frozenset[str]) -> None:
        """From now on the pages of `owners`, those to come too, are the last to give way on the device and in RAM."""
        self._residency.pin(owners)

    def owners_changed(self, pages: Iterable[PageId]) -> None:
        """Complete pages of record gained owners, or lost some."""
        self._residency.owners_changed(pages)

    # What may be asked of pages

    def places(self, pages: Ids) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Which layers of pages are on the device, bool `[num_layers, len(pages)]`; which pages are on the host and in
        the store.
        """
        return self.device.slots[:, pages] != NOWHERE, self._residency.has_row(pages), self._residency.stored[pages]

    @property
    def slot_policy(self) -> TwoFactor:
        """What is known of the reads of layers of pages, by `DevicePool.key`."""
        return self._residency.slot_policy

    @property
    def is_writing(self) -> bool:
        """Whether pages are on their way to the store."""
        return bool(self._residency.being_written)

    # What becomes of pages

    def tier_of(self, page: PageId) -> str:
        """ "device", "host" or "disk": the nearest place where the whole of a complete page is."""
        return self._residency.tier_of(page)

    def freed(self, pages: Iterable[PageId]) -> None:
        """These ids mean nothing any more: give their places back."""
        self._residency.freed(pages)

    def released(self, pages: Iterable[PageId]) -> None:
        """Pages that may be cached now; those that only the store has need no id here."""
        self._residency.released(pages)

    def give_up(self, pages: Ids) -> int:
        """Forget the device's copies of unreferenced pages that lie below, too, and are not pinned.

        Returns the slots that became free.
        """
        return self._slots.give_up(pages)

    def discard(self, page: PageId) -> None:
        """Drop a cached page from device and host. What the store has of it stays there. Drain first."""
        self._residency.discard(page)

    # The background

    def collect(self) -> None:
        """Take note of what was written down meanwhile."""
        self._rows.collect()

    def take_problems(self) -> list[str]:
        """Sentences about the store, each told once."""
        problems, self._residency.problems = self._residency.problems, []
        return problems

    def drain(self) -> None:
        """Wait until everything is written down, or refused."""
        self._rows.drain()

    def close(self) -> None:
        """Drain, and end the threads."""
        self._rows.close()
        self._loader.close()

    def check_conservation(self) -> None:
        """Raise AssertionError unless every tier's places add up to what was allocated."""
        self.device.check_conservation()
        self.host.check_conservation()
