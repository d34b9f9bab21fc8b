"""Bringing pages up: whole ones before a step, single layers while it runs, and some just before they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
import torch

from octavo.engine.config import STREAM_PAGES
from octavo.engine.kv.device_tier import DeviceTier
from octavo.engine.kv.host_tier import HostTier
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.pools import NOWHERE, Ids, RowState
from octavo.engine.kv.reader import StoreReader, Wanted
from octavo.engine.kv.residency import Residency
from octavo.engine.kv.sizes import num_records
from octavo.engine.kv.store import PageSpace


class PageLostError(Exception):
    """Held pages whose bytes could not be read back; they have to be computed again. Carries ids and one reason."""

    def __init__(self, pages: list[PageId], reason: str) -> None:
        super().__init__(reason)
        self.pages = pages


class Loader:
    """Copies pages to the device from the host, or from `space` where nothing nearer has them.

    Whatever is read is found, or reported lost by a PageLostError; every method here but `expect` may raise it.
    """

    def __init__(self, residency: Residency, device: DeviceTier, host: HostTier, space: PageSpace | None) -> None:
        self._residency = residency
        self._device = device
        self._host = host
        self._space = space
        self._selected: list[Ids] = []  # keys that were selected in this step and not counted yet
        pool, boxes = residency.device, residency.bounds.layout if residency.bounds is not None else None
        self._num_records = num_records(pool.layout, pool.num_layers, boxes)
        self._reader = (
            None
            if space is None
            else StoreReader(space, self._num_records, pool.layout.slot_bytes, len(pool.stream_slots))
        )

    # Whole pages

    def promote(self, pages: Ids) -> None:
        """Copy up those of `pages` that are not near: to the device as far as it has room, else to the host."""
        residency, pool = self._residency, self._residency.device
        pages = pages[pool.num_resident[pages] < pool.num_layers]
        if not pages.size:
            return
        needed = np.cumsum(pool.num_layers - pool.num_resident[pages])
        placed = int(np.searchsorted(needed, self._device.make_room(int(needed[-1])), side="right"))
        up, rest = pages[:placed], pages[placed:]
        on_host = residency.has_row(up)
        for page in map(int, up[on_host]):
            self._device.complete(page, residency.host.slab[int(residency.host.rows[page])])
        residency.counters.promoted_from_host += int(on_host.sum())
        self._read_pages(up[~on_host], to_device=True)
        self._read_pages(rest[~residency.has_row(rest)], to_device=False)

    def _read_pages(self, pages: Ids, *, to_device: bool) -> None:
        """Whole pages from the store into spare rows, and on to the device; without either they are left.

        Where the device is RAM, a page without a row is read straight into its slots.
        """
        residency, host = self._residency, self._residency.host
        wanted: list[Wanted] = []
        in_slots: set[PageId] = set()  # pages that have slots and no bytes in them yet
        for page in map(int, pages):
            row = self._host.spare_row(page)
            if row is None and to_device:
                row = self._device.place_in_ram(page)
                if row is not None:
                    in_slots.add(page)
            if to_device or row is not None:
                wanted.append(Wanted(page, residency.stored_page(page), row))
        if not wanted:
            return
        assert self._reader is not None
        lost: dict[PageId, str] = {}
        try:
            with closing(self._reader.pages(wanted)) as found:
                for read in found:
                    if read.problem is not None:
                        lost[read.page] = read.problem
                        continue
                    if host.rows[read.page] != NOWHERE:
                        host.state[host.rows[read.page]] = RowState.CLEAN
                    if read.page in in_slots:
                        in_slots.remove(read.page)
                    elif to_device:
                        self._device.complete(read.page, read.data)
        finally:
            self._host.abandon([item.page for item in wanted])
            for page in in_slots:
                self._device.vacate(page)
        residency.counters.promoted_from_disk += len(wanted) - len(lost)
        self._lose(lost)

    # Single layers

    def load(self, layer: int, pages: Ids) -> Ids:
        """Slots of one layer of up to STREAM_PAGES pages; valid until the next call."""
        pool = self._residency.device
        self._residency.counters.layer_reads += len(pages)
        slots: Ids = pool.slots[layer, pages].astype(np.int64)
        missing = np.flatnonzero(slots == NOWHERE)
        if missing.size:
            stream = pool.stream_slots[: len(missing)]
            self._read_layer(layer, pages[missing], stream)
            slots[missing] = stream
        return slots

    def load_selected(self, layer: int, pages: Ids) -> Ids:
        """`load` for pages that this layer chose: they stay on the device as far as they are worth it.

        Of pages that are all there already it takes any number.
        """
        pool = self._residency.device
        self._selected.append(pool.key(layer, pages))
        missing = pages[pool.slots[layer, pages] == NOWHERE]
        if missing.size or layer == pool.num_layers - 1:
            self._touch_selected()
        if missing.size:
            in_step = self._residency.in_step
            before = in_step[pages]
            in_step[pages] = True  # one of them must not push out another
            staying = missing[: self._device.make_room(len(missing), for_reading=True)]
            in_step[pages] = before  # another sequence may read one of them always
            if staying.size:
                with self._device.filling(np.full(len(staying), layer), staying) as slots:
                    self._read_layer(layer, staying, slots)
        return self.load(layer, pages)

    def note_selected(self, layers: Ids, pages: Ids) -> None:
        """As `load_selected` for pages that are all on the device, `pages[i]` in `layers[i]`."""
        self._residency.counters.layer_reads += len(pages)
        self._selected.append(self._residency.device.key(layers, pages))
        self._touch_selected()

    def begin_step(self) -> None:
        """What the last step selected and did not come to count may be gone by now."""
        self._selected.clear()

    def _touch_selected(self) -> None:
        """Count what was selected, many layers at a time: it costs the same for all as for one."""
        self._residency.slot_policy.touch(np.concatenate(self._selected))
        self._selected.clear()

    def expect(self, layer: int, pages: Ids) -> None:
        """Start reading from the store what the next `load` of a layer will probably ask for."""
        if self._reader is None:
            return
        residency = self._residency
        is_below = (residency.device.slots[layer, pages] == NOWHERE) & ~residency.has_row(pages)
        records = [residency.table.record_of(int(page)) for page in pages[is_below][:STREAM_PAGES]]
        self._reader.expect(layer, [record.stored for record in records if record is not None and record.stored])

    def _read_layer(self, layer: int, pages: Ids, slots: Ids) -> None:
        """One layer of `pages` into `slots`."""
        residency = self._residency
        residency.counters.streamed_layers += len(pages)
        on_host = residency.has_row(pages)
        if on_host.any():
            rows = residency.host.rows[pages[on_host]].astype(np.int64)
            residency.device.write(slots[on_host], residency.host.read(rows, layer))
        if on_host.all():
            return
        assert self._reader is not None
        below = [int(page) for page in pages[~on_host]]
        data, problems = self._reader.layer(layer, [residency.stored_page(page) for page in below])
        self._lose({page: problem for page, problem in zip(below, problems, strict=True) if problem is not None})
        residency.device.write(slots[~on_host], data)

    # Bounds, and what cannot be read

    def restore_bounds(self, pages: Sequence[PageId]) -> int:
        """Read the bounds of pages that only the store has; returns how many of them, from the first on, are there."""
        residency, bounds = self._residency, self._residency.bounds
        if bounds is None or not pages:
            return len(pages)
        assert self._space is not None
        first, size = residency.device.num_layers, residency.device.layout.slot_bytes
        count = self._num_records - first
        buffer = torch.empty(len(pages), count * size, dtype=torch.uint8)
        reads = [
            (residency.stored_page(page), first, count, row.numpy().data)
            for page, row in zip(pages, buffer, strict=True)
        ]
        for at, problem in enumerate(self._space.submit_read(reads).result()):
            if problem is not None:
                residency.report(problem)
                return at
            bounds.restore(pages[at], buffer[at, : bounds.page_nbytes])
        return len(pages)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _lose(self, lost: Mapping[PageId, str]) -> None:
        """Pages whose only copy was bad; nobody may find them again."""
        if not lost:
            return
        residency = self._residency
        for page, reason in lost.items():
            residency.counters.lost += 1
            residency.report(reason)
            residency.table.disown(page)
            residency.stored[page] = False
        raise PageLostError(list(lost), next(iter(lost.values())))
