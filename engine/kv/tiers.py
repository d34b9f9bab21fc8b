"""Where the bytes of complete pages are, and how they move: device slots, host rows, the page store below.

Tiers are inclusive and complete pages immutable, so moving up is copying and moving out is forgetting. Nothing here
decides what attention reads: a page that is wanted is found, on whatever tier it is, or reported lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.config import GROUP_PAGES
from octavo.engine.errors import OutOfPagesError
from octavo.engine.kv.eviction import TwoFactor
from octavo.engine.kv.far_pages import BoundsTable
from octavo.engine.kv.pages import PageId, PageTable
from octavo.engine.kv.pools import NOWHERE, DevicePool, HostPool, Ids, RowState
from octavo.engine.kv.reader import StoreReader, Wanted
from octavo.engine.kv.store import PageSpace, StoredPage
from octavo.engine.kv.writer import WriteJob, Writer


class PageLostError(Exception):
    """Held pages whose bytes could not be read back; they have to be computed again. Carries ids and one reason."""

    def __init__(self, pages: list[PageId], reason: str) -> None:
        super().__init__(reason)
        self.pages = pages


@dataclass(slots=True)
class TierCounters:
    """What has moved since the engine started, in pages unless it says otherwise."""

    promoted_from_host: int = 0
    promoted_from_disk: int = 0
    streamed_layers: int = 0  # layers of a page that passed through the stream slots
    evicted_from_device: int = 0  # layers of a page
    evicted_from_host: int = 0
    written: int = 0
    not_written: int = 0
    lost: int = 0
    stalls: int = 0  # times that a row was needed and every one was still unwritten


def num_records(device: DevicePool, bounds: BoundsTable | None) -> int:
    """Records of `slot_bytes` that a whole page is: its layers, and its bounds."""
    if bounds is None:
        return device.num_layers
    return device.num_layers + -(-device.num_layers * bounds.layout.page_bytes // device.layout.slot_bytes)


class Tiers:
    """The places of every page of `table`.

    `host` is None where pages live on the device alone. `writer` is None where nothing is written down; `space` may
    then still hold pages to read. `keeps_host` is False where host rows are only the write buffer.
    """

    def __init__(
        self,
        table: PageTable,
        device: DevicePool,
        host: HostPool | None,
        space: PageSpace | None,
        bounds: BoundsTable | None,
        *,
        writes: bool,
        keeps_host: bool,
    ) -> None:
        self.table = table
        self.device = device
        self.host = host
        self.space = space
        self.bounds = bounds
        self.counters = TierCounters()
        self.problems: list[str] = []  # sentences about the store that nobody was told yet
        self._told: set[str] = set()
        self._reader = (
            None
            if space is None
            else StoreReader(space, num_records(device, bounds), device.layout.slot_bytes, len(device.stream_slots))
        )
        self._writer = Writer(space) if writes and space is not None else None
        self._keeps_host = keeps_host
        self._slot_policy = TwoFactor(64 * device.num_layers)  # of a layer of a page, by `device.key`
        self._page_policy = TwoFactor(64)
        self._queued: set[PageId] = set()
        self._in_step = np.zeros(0, dtype=np.bool_)
        self._stored = np.zeros(0, dtype=np.bool_)

    # What a step reads, and what it adds

    def begin_step(self, pages: Ids) -> None:
        """Bring up as many of `pages` as the device holds, none of which gives way until the next step.

        Raises PageLostError.
        """
        self.collect()
        self.grow()
        self._in_step[:] = False
        self._in_step[pages] = True
        self._page_policy.touch(pages, selected=False)
        layers = np.arange(self.device.num_layers)
        self._slot_policy.touch(self.device.key(layers, pages[:, None]).ravel(), selected=False)
        missing = pages[self.device.num_resident[pages] < self.device.num_layers]
        if missing.size:
            self._promote(missing)

    def make_places(self, pages: Sequence[PageId]) -> None:
        """Give new pages a row on the host, and slots on the device as far as they go.

        Raises OutOfPagesError when a page would have no place at all.
        """
        self.grow()
        ids = np.asarray(pages, dtype=np.int64)
        self._in_step[ids] = True
        num_layers = self.device.num_layers
        placed = self._make_room(len(ids) * num_layers) // num_layers
        if self.host is None and placed < len(ids):
            raise OutOfPagesError(f"All {self.device.num_slots // num_layers} KV pages are in use.")
        self._place(ids[:placed])
        if self.host is not None:
            for page in pages:
                self._take_row(page, RowState.FILLING)

    def put(self, layer: int, pages: Sequence[PageId], encoded: Tensor) -> None:
        """`encoded` uint8 `[len(pages), slot_bytes]`: one layer of pages that have their places."""
        ids = np.asarray(pages, dtype=np.int64)
        slots = self.device.slots[layer, ids].astype(np.int64)
        placed = np.flatnonzero(slots != NOWHERE)
        if len(placed) == len(ids):
            self.device.write(slots, encoded)
        elif len(placed):
            self.device.write(slots[placed], encoded[torch.from_numpy(placed)])
        if self.host is not None:
            self.host.write(self.host.rows[ids].astype(np.int64), layer, encoded)
        if self.bounds is not None:
            self.bounds.compute(layer, pages, encoded)

    def completed(self, pages: Iterable[PageId]) -> None:
        """Pages of record whose last layer was put: they are immutable now, and are written down."""
        if self.host is None:
            return
        ids = list(pages)
        for page in ids:
            row = self.host.rows[page]
            if self.bounds is not None:
                self.host.append(int(row), self.device.num_layers, self.bounds.of(page))
            self.host.state[row] = RowState.CLEAN if self._writer is None else RowState.UNWRITTEN
        self._write_down(ids)

    def load(self, layer: int, pages: Ids) -> Ids:
        """Slots of one layer of up to GROUP_PAGES pages; valid until the next call. Raises PageLostError."""
        slots: Ids = self.device.slots[layer, pages].astype(np.int64)
        missing = np.flatnonzero(slots == NOWHERE)
        if missing.size:
            stream = self.device.stream_slots[: len(missing)]
            self._read_layer(layer, pages[missing], stream)
            slots[missing] = stream
        return slots

    def load_selected(self, layer: int, pages: Ids) -> Ids:
        """`load` for pages that this layer chose: they stay on the device as far as they are worth it."""
        keys = self.device.key(layer, pages)
        self._slot_policy.touch(keys)
        missing = pages[self.device.slots[layer, pages] == NOWHERE]
        if missing.size:
            self._in_step[pages] = True  # one of them must not push out another
            room = self._make_room(len(missing))
            self._in_step[pages] = False
            if room:
                slots = self.device.place(np.full(room, layer), missing[:room])
                try:
                    self._read_layer(layer, missing[:room], slots)
                except PageLostError:
                    self.device.vacate(slots)
                    raise
        return self.load(layer, pages)

    def expect(self, layer: int, pages: Ids) -> None:
        """Start reading from the store what the next `load` of a layer will probably ask for."""
        if self._reader is None:
            return
        pages = pages[(self.device.slots[layer, pages] == NOWHERE) & ~self._has_row(pages)][:GROUP_PAGES]
        records = [self.table.record_of(int(page)) for page in pages]
        self._reader.expect(layer, [record.stored for record in records if record is not None and record.stored])

    # What becomes of pages that are not needed

    def adopt(self, pages: Sequence[PageId]) -> int:
        """Pages of record that lie in the store; returns how many of them, from the first on, can be used."""
        self.grow()
        self._stored[list(pages)] = True
        if self.bounds is None or not pages:
            return len(pages)
        assert self.space is not None
        first, size = self.device.num_layers, self.device.layout.slot_bytes
        count = num_records(self.device, self.bounds) - first
        buffer = torch.empty(len(pages), count * size, dtype=torch.uint8)
        reads = [
            (self._stored_page(page), first, count, row.numpy().data) for page, row in zip(pages, buffer, strict=True)
        ]
        for at, problem in enumerate(self.space.submit_read(reads).result()):
            if problem is not None:
                self._report(problem)
                return at
            self.bounds.restore(pages[at], buffer[at, : self.bounds.table.shape[0] * self.bounds.layout.page_bytes])
        return len(pages)

    def tier_of(self, page: PageId) -> str:
        """ "device", "host" or "disk": the nearest place where the whole of a complete page is."""
        if self.device.num_resident[page] == self.device.num_layers:
            return "device"
        return "host" if self._has_row(np.array([page]))[0] else "disk"

    def freed(self, pages: Iterable[PageId]) -> None:
        """These ids mean nothing any more: give their places back."""
        for page in pages:
            self.device.vacate_page(page)
            if self.host is not None and page not in self._queued:
                self.host.vacate(page)
            self._stored[page] = False
            self._page_policy.forget(np.array([page]))
            self._slot_policy.forget(self.device.key(np.arange(self.device.num_layers), np.array([page])))

    def released(self, pages: Iterable[PageId]) -> None:
        """Pages that may be cached now; those that only the store has need no id here."""
        for page in pages:
            if self.table.is_cached(page) and self._is_nowhere(page):
                self.discard(page)

    def discard(self, page: PageId) -> None:
        """Drop a cached page from device and host. What the store has of it stays there."""
        if page in self._queued:
            self.drain()
        self.table.disown(page)
        self.freed([page])

    def collect(self, *, wait: bool = False) -> None:
        """Take note of what the writer has done; with `wait`, of at least one page, if any is queued."""
        if self._writer is None or self.host is None or self.space is None:
            return
        for result in self._writer.collect(wait=wait):
            self._queued.discard(result.page)
            record = self.table.record_of(result.page)
            if record is None or record.identity != result.identity:
                # Lost or forgotten while it was being written: only its row waited for that.
                self.host.vacate(result.page)
                continue
            if result.stored is not None:
                self.counters.written += 1
                record.stored, self._stored[result.page] = result.stored, True
                for owner in record.owners - {result.owner}:  # who came while it was being written
                    self.space.add_owner([record.identity], owner)
                self.host.state[self.host.rows[result.page]] = RowState.CLEAN
                continue
            self.counters.not_written += 1
            self._report(result.problem or "")
            if self.device.num_resident[result.page] == self.device.num_layers:
                self.host.vacate(result.page)  # the device has it; the write buffer is for others

    def drain(self) -> None:
        """Wait until everything queued is written, or refused."""
        while self._queued:
            self.collect(wait=True)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self.collect()
        if self._reader is not None:
            self._reader.close()

    def check_conservation(self) -> None:
        """Raise AssertionError unless every tier's places add up to what was allocated."""
        self.device.check_conservation()
        if self.host is not None:
            self.host.check_conservation()

    # Making room

    def _make_room(self, count: int) -> int:
        """Evict until `count` device slots are free, or nothing more can go; returns how many of them are."""
        need = count - self.device.num_free
        if need > 0:
            pages = np.flatnonzero((self.device.num_resident > 0) & ~self._in_step)
            pages = pages[self._has_row(pages) | self._stored[pages]]
            keys = self.device.resident_keys(pages)
            if keys.size:
                victims = self._slot_policy.victims(keys, min(need, len(keys)))
                self.counters.evicted_from_device += len(victims)
                self.released(map(int, self.device.vacate(self.device.slots_of_keys(victims))))
        if self.device.num_free < count and (self.host is None or self.counters.not_written):
            self._drop_cached(count)
        return min(count, self.device.num_free)

    def _drop_cached(self, count: int) -> None:
        """Give up pages that are nowhere else and that nobody references, the stalest first."""
        for page in list(self.table.stalest()):
            if self.device.num_free >= count:
                return
            if not self._in_step[page] and self.device.num_resident[page] and page not in self._queued:
                self.counters.evicted_from_device += 1
                self.discard(page)

    def _take_row(self, page: PageId, state: RowState) -> int:
        """A row for `page`, from one that is free, or clean and least wanted, or waited for."""
        assert self.host is not None
        tried_again = False
        while not self.host.num_free:
            if self._evict_row():
                continue
            if not self._queued and not tried_again:  # a disk that was full may have room by now
                tried_again = True
                unwritten = self.host.page_of_row[self.host.state == RowState.UNWRITTEN]
                self._write_down(unwritten.tolist())
            if not self._queued:
                raise OutOfPagesError(
                    f"All {self.host.num_rows} page buffers in RAM are in use, and none can be written down."
                )
            self.counters.stalls += 1
            self.collect(wait=True)
        return self.host.place(page, state)

    def _write_down(self, pages: Sequence[PageId]) -> None:
        """Queue complete pages of record for the store."""
        if self._writer is None or self.host is None:
            return
        jobs: list[WriteJob] = []
        for page in pages:
            record = self.table.record_of(page)
            if record is None:
                continue  # forgotten, and held only until its answer ends
            owner, data = min(record.owners), self.host.view(int(self.host.rows[page]))
            jobs.append(WriteJob(page, record.identity, record.parent, record.token_ids, owner, record.origin, data))
        self._queued.update(job.page for job in jobs)
        self._writer.submit(jobs)

    def _evict_row(self, *, spare_only: bool = False) -> bool:
        """Give up one row whose page is elsewhere, or whose page nobody references. False if there is none.

        With `spare_only`, only one that costs nothing: its page is not read in this step, and is kept below.
        """
        assert self.host is not None
        clean = self.host.page_of_row[self.host.state == RowState.CLEAN]
        below = clean[self._stored[clean]]
        candidates = below[~self._in_step[below]]
        if not candidates.size and not spare_only:
            candidates = below
        if candidates.size:
            victim = int(self._page_policy.victims(candidates, 1)[0])
            self.host.vacate(victim)
            self.released([victim])
        elif spare_only:
            return False
        else:
            victim = next((page for page in self.table.stalest() if self._only_row_matters(page)), NOWHERE)
            if victim == NOWHERE:
                return False
            self.discard(victim)
        self.counters.evicted_from_host += 1
        return True

    def _only_row_matters(self, page: PageId) -> bool:
        assert self.host is not None
        return self.host.rows[page] != NOWHERE and page not in self._queued and not self._in_step[page]

    # Bringing up

    def _place(self, pages: Ids) -> None:
        """Slots in every layer for pages that have none."""
        num_layers = self.device.num_layers
        layers = np.tile(np.arange(num_layers), len(pages))
        self.device.place(layers, np.repeat(pages, num_layers))

    def _promote(self, pages: Ids) -> None:
        """Copy whole pages up: to the device as far as it has room, else to the host."""
        needed = np.cumsum(self.device.num_layers - self.device.num_resident[pages])
        placed = int(np.searchsorted(needed, self._make_room(int(needed[-1])), side="right"))
        up, rest = pages[:placed], pages[placed:]
        on_host = self._has_row(up)
        for page in up[on_host]:
            self._copy_up(int(page), self._row_of(int(page)))
        self.counters.promoted_from_host += int(on_host.sum())
        self._read_pages(up[~on_host], to_device=True)
        if self._keeps_host:
            self._read_pages(rest[~self._has_row(rest)], to_device=False)

    def _copy_up(self, page: PageId, data: Tensor) -> None:
        """The layers of a page that the device lacks, out of all of them."""
        layers = np.flatnonzero(self.device.slots[:, page] == NOWHERE)
        slots = self.device.place(layers, np.full(len(layers), page))
        self.device.write(slots, data[torch.from_numpy(layers)])

    def _row_of(self, page: PageId) -> Tensor:
        assert self.host is not None
        return self.host.slab[int(self.host.rows[page])]

    def _read_pages(self, pages: Ids, *, to_device: bool) -> None:
        """Whole pages from the store into spare rows, and on to the device. Raises PageLostError."""
        wanted: list[Wanted] = []
        for page in map(int, pages):
            row = self._spare_row(page) if self._keeps_host else None
            if to_device or row is not None:
                wanted.append(Wanted(page, self._stored_page(page), row))
        if not wanted:
            return
        assert self._reader is not None
        lost: dict[PageId, str] = {}
        for found in self._reader.pages(wanted):
            if found.problem is not None:
                lost[found.page] = found.problem
                continue
            if self.host is not None and self.host.rows[found.page] != NOWHERE:
                self.host.state[self.host.rows[found.page]] = RowState.CLEAN
            if to_device:
                self._copy_up(found.page, found.data)
        self.counters.promoted_from_disk += len(wanted) - len(lost)
        self._lose(lost)

    def _spare_row(self, page: PageId) -> Tensor | None:
        """A row that nothing in this step needs, if there is one."""
        assert self.host is not None
        if not self.host.num_free and not self._evict_row(spare_only=True):
            return None
        return self.host.slab[self.host.place(page, RowState.FILLING)]

    def _read_layer(self, layer: int, pages: Ids, slots: Ids) -> None:
        """One layer of `pages` into `slots`, from wherever they are. Raises PageLostError."""
        self.counters.streamed_layers += len(pages)
        on_host = self._has_row(pages)
        if on_host.any():
            assert self.host is not None
            rows = self.host.rows[pages[on_host]].astype(np.int64)
            self.device.write(slots[on_host], self.host.read(rows, layer))
        if on_host.all():
            return
        assert self._reader is not None
        below = [int(page) for page in pages[~on_host]]
        data, problems = self._reader.layer(layer, [self._stored_page(page) for page in below])
        self._lose({page: problem for page, problem in zip(below, problems, strict=True) if problem is not None})
        self.device.write(slots[~on_host], data)

    def _stored_page(self, page: PageId) -> StoredPage:
        record = self.table.record_of(page)
        assert record is not None, f"page {page} is not complete"
        assert record.stored is not None, f"page {page} is on no tier"
        return record.stored

    def _lose(self, lost: Mapping[PageId, str]) -> None:
        """Pages whose only copy was bad; nobody may find them again. Raises PageLostError, if there are any."""
        if not lost:
            return
        for page, reason in lost.items():
            self.counters.lost += 1
            self._report(reason)
            self.table.disown(page)
            self._stored[page] = False
            if self.host is not None:
                self.host.vacate(page)
        raise PageLostError(list(lost), next(iter(lost.values())))

    def _report(self, problem: str) -> None:
        """Once for each kind of trouble: a full disk would otherwise be told at every page."""
        if problem not in self._told:
            self._told.add(problem)
            self.problems.append(problem)

    # What is where

    def grow(self) -> None:
        """The tables follow the page ids there are."""
        capacity = self.table.capacity
        self.device.resize(capacity)
        if self.host is not None:
            self.host.resize(capacity)
        if self.bounds is not None:
            self.bounds.resize(capacity)
        room = len(self.device.num_resident)
        if len(self._in_step) < room:
            more = np.zeros(room - len(self._in_step), dtype=np.bool_)
            self._in_step = np.concatenate((self._in_step, more))
            self._stored = np.concatenate((self._stored, more))
            self._page_policy.resize(room)
            self._slot_policy.resize(room * self.device.num_layers)

    def _has_row(self, pages: Ids) -> NDArray[np.bool_]:
        """Which pages have all their bytes in a host row."""
        if self.host is None:
            return np.zeros(len(pages), dtype=np.bool_)
        rows = self.host.rows[pages]
        complete: NDArray[np.bool_] = (rows != NOWHERE) & (self.host.state[rows] >= RowState.UNWRITTEN)
        return complete

    def _is_nowhere(self, page: PageId) -> bool:
        return not self.device.num_resident[page] and (self.host is None or self.host.rows[page] == NOWHERE)
