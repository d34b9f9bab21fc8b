"""Which page is where, and what keeps it there: all that the rooms which move pages tell each other.

Only the engine's thread reads or writes any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octavo.engine.kv.eviction import TwoFactor
from octavo.engine.kv.far_pages import BoundsTable
from octavo.engine.kv.pages import PageId, PageTable
from octavo.engine.kv.pools import NOWHERE, DevicePool, HostPool, Ids, RowState, grown
from octavo.engine.kv.store import StoredPage


@dataclass(slots=True)
class TierCounters:
    """What has moved since the engine started, in pages unless it says otherwise."""

    promoted_from_host: int = 0
    promoted_from_disk: int = 0
    layer_reads: int = 0  # layers of a page that attention asked for, wherever they were
    streamed_layers: int = 0  # layers of a page that were read alone, because it was not all on the device
    evicted_from_device: int = 0  # layers of a page
    evicted_from_host: int = 0
    written: int = 0
    not_written: int = 0
    lost: int = 0
    stalls: int = 0  # times that a row was needed and every one was still unwritten


class Residency:
    """The places of every page of `table`.

    `in_step` bool `[capacity]` are pages that a running step certainly reads, or fills: they stay where they are. Pages
    that a layer selects are among them only while they are brought up; then what they are worth decides.
    `pinned` bool `[capacity]` are pages of owners that are pinned: of candidates to give way they are the last.
    `stored` bool `[capacity]` are pages that the store has. `being_written` are pages whose rows the writer reads
    from; such a page is complete, is on no disk yet, and is not discarded before the writer is done with it.
    What is known of reads outlives the places: `slot_policy` of layers of pages by `DevicePool.key`, `page_policy`
    of pages.
    """

    def __init__(self, table: PageTable, device: DevicePool, host: HostPool, bounds: BoundsTable | None) -> None:
        self.table = table
        self.device = device
        self.host = host
        self.bounds = bounds
        self.in_step = np.zeros(0, dtype=np.bool_)
        self.pinned = np.zeros(0, dtype=np.bool_)
        self.stored = np.zeros(0, dtype=np.bool_)
        self.being_written: set[PageId] = set()
        self.slot_policy = TwoFactor(64 * device.num_layers)
        self.page_policy = TwoFactor(64)
        self.counters = TierCounters()
        self.problems: list[str] = []  # sentences about the store that nobody was told yet
        self._pinned_owners: frozenset[str] = frozenset()
        self._told: set[str] = set()
        self._read_last = np.zeros(0, dtype=np.int64)

    def grow(self) -> None:
        """Follow the page ids there are. Called when ids were made, before anything is asked of them."""
        capacity = self.table.capacity
        if self.bounds is not None:
            self.bounds.resize(capacity)
        if capacity <= len(self.in_step):
            return
        self.device.resize(capacity)
        self.host.resize(capacity)
        self.in_step = grown(self.in_step, capacity, False)
        self.pinned = grown(self.pinned, capacity, False)
        self.stored = grown(self.stored, capacity, False)
        self.page_policy.resize(len(self.in_step))
        self.slot_policy.resize(len(self.in_step) * self.device.num_layers)

    def pin(self, owners: frozenset[str]) -> None:
        """From now on the pages of `owners`, those to come too, are pinned, and no others."""
        if owners != self._pinned_owners:
            self._pinned_owners = owners
            self.pinned[:] = False
            self.owners_changed([page for owner in owners for page in self.table.owned_by(owner)])

    def owners_changed(self, pages: Iterable[PageId]) -> None:
        """Complete pages of record gained owners, or lost some."""
        for page in pages:
            record = self.table.record_of(page)
            self.pinned[page] = record is not None and not record.owners.isdisjoint(self._pinned_owners)

    def last_pinned(self, pages: Ids) -> tuple[Ids, Ids]:
        """Candidates to give way: those that are not pinned, and those that are."""
        is_pinned = self.pinned[pages]
        return pages[~is_pinned], pages[is_pinned]

    def stalest(self) -> Iterator[PageId]:
        """Cached pages as `PageTable.stalest` has them, the pinned ones last."""
        for pinned in (False, True):
            for page in self.table.stalest():
                if self.pinned[page] == pinned:
                    yield page

    def begin_step(self, pages: Ids) -> None:
        """A step reads `pages`, in every layer."""
        self.in_step[:] = False
        self.in_step[pages] = True
        if np.array_equal(pages, self._read_last):
            return  # the same pages are read for many tokens: once is enough to know how old they are
        self._read_last = pages
        self.page_policy.touch(pages, selected=False)
        layers = np.arange(self.device.num_layers)
        self.slot_policy.touch(self.device.key(layers, pages[:, None]).ravel(), selected=False)

    def has_row(self, pages: Ids) -> NDArray[np.bool_]:
        """Which pages have all their bytes in a host row."""
        if not self.host.num_rows:
            return np.zeros(len(pages), dtype=np.bool_)
        rows = self.host.rows[pages]
        complete: NDArray[np.bool_] = (rows != NOWHERE) & (self.host.state[rows] >= RowState.UNWRITTEN)
        return complete

    def tier_of(self, page: PageId) -> str:
        """ "device", "host" or "disk": the nearest place where the whole of a complete page is."""
        if self.device.num_resident[page] == self.device.num_layers:
            return "device"
        return "host" if self.has_row(np.array([page]))[0] else "disk"

    def stored_page(self, page: PageId) -> StoredPage:
        """Where the store has a page that is nowhere else."""
        record = self.table.record_of(page)
        assert record is not None, f"page {page} is not complete"
        assert record.stored is not None, f"page {page} is on no tier"
        return record.stored

    def freed(self, pages: Iterable[PageId]) -> None:
        """These ids mean nothing any more: give their places back, and forget how they were read."""
        for page in pages:
            self._read_last = self._read_last[:0]  # an id of it may soon be another page's
            self.device.vacate_page(page)
            self.host.vacate(page)
            self.stored[page] = self.pinned[page] = False
            self.page_policy.forget(np.array([page]))
            self.slot_policy.forget(self.device.key(np.arange(self.device.num_layers), np.array([page])))

    def released(self, pages: Iterable[PageId]) -> None:
        """Pages that may be cached, or have lost a place; those that only the store has need no id here."""
        for page in pages:
            is_nowhere = not self.device.num_resident[page] and self.host.rows[page] == NOWHERE
            if is_nowhere and self.table.is_cached(page):
                self.discard(page)

    def discard(self, page: PageId) -> None:
        """Drop a cached page from device and host. What the store has of it stays there."""
        assert page not in self.being_written
        self.table.disown(page)
        self.freed([page])

    def report(self, problem: str) -> None:
        """Once for each kind of trouble: a full disk would otherwise be told at every page."""
        if problem not in self._told:
            self._told.add(problem)
            self.problems.append(problem)
