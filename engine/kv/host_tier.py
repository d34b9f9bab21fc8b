"""The host tier: who gets its rows, who gives way, and how complete pages are written down from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from octavo.engine.errors import OutOfPagesError
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.pools import NOWHERE, Ids, RowState
from octavo.engine.kv.residency import Residency
from octavo.engine.kv.store import PageSpace
from octavo.engine.kv.writer import WriteJob, Writer, WriteResult


class HostTier:
    """Rows of a whole page each, in a HostPool; it may have none.

    A page is encoded into its row, and once it is complete the writer's thread takes its bytes from there to `space`.
    Until that is done the row stays where it is; all bookkeeping is the engine's thread's. `space` is None where
    nothing is written down. TwoFactor chooses among the pages that are kept below; of each kind of candidate the pinned
    ones give way last. Without `keeps` rows are only the write buffer, and nothing is read back into them.
    """

    def __init__(self, residency: Residency, space: PageSpace | None, *, keeps: bool) -> None:
        self._residency = residency
        self._pool = residency.host
        self._space = space
        self._writer = Writer(space) if space is not None else None
        self._keeps = keeps

    # Rows

    def make_places(self, pages: Sequence[PageId]) -> None:
        """A row for every new page. Raises OutOfPagesError."""
        if self._pool.num_rows:
            for page in pages:
                self._free_a_row()
                self._pool.place(page, RowState.FILLING)

    def spare_row(self, page: PageId) -> Tensor | None:
        """A row to read a page back into, uint8 `[num_records, slot_bytes]`.

        None if this step needs them all, or if the others are pinned and the page is not.
        """
        pinned_too = bool(self._residency.pinned[page])
        if not self._keeps or not (self._pool.num_free or self._evict_spare(pinned_too=pinned_too)):
            return None
        return self._pool.slab[self._pool.place(page, RowState.FILLING)]

    def abandon(self, pages: Sequence[PageId]) -> None:
        """Give back those of the pages' spare rows that nothing was read into."""
        for page in pages:
            row = self._pool.rows[page]
            if row != NOWHERE and self._pool.state[row] == RowState.FILLING:
                self._pool.vacate(page)

    def put(self, layer: int, pages: Ids, encoded: Tensor) -> None:
        """Write one layer of pages: `encoded` uint8 `[len(pages), slot_bytes]`."""
        if self._pool.num_rows:
            self._pool.write(self._pool.rows[pages].astype(np.int64), layer, encoded)

    def _free_a_row(self) -> None:
        """From a page that is kept elsewhere or that nobody references, or else by waiting for the writer."""
        being_written = self._residency.being_written
        tried_again = False
        while not self._pool.num_free:
            if self._evict():
                continue
            if not being_written and not tried_again:  # a disk that was full may have room by now
                tried_again = True
                self._write_down(self._pool.page_of_row[self._pool.state == RowState.UNWRITTEN].tolist())
            if not being_written:
                raise OutOfPagesError(
                    f"All {self._pool.num_rows} page buffers in RAM are in use, and none can be written down."
                )
            self._residency.counters.stalls += 1
            self.collect(wait=True)

    # Giving way

    def _evict(self) -> bool:
        """Give up one row, the cheapest kind first; False if there is none."""
        return self._evict_spare() or self._evict_one_of(self._kept_below()) or self._drop_cached()

    def _evict_spare(self, *, pinned_too: bool = True) -> bool:
        """Give up the row of a page that this step does not read, and that is kept below."""
        pages = self._kept_below()
        return self._evict_one_of(pages[~self._residency.in_step[pages]], pinned_too=pinned_too)

    def _evict_one_of(self, pages: Ids, *, pinned_too: bool = True) -> bool:
        others, pinned = self._residency.last_pinned(pages)
        candidates = pinned if pinned_too and not others.size else others
        if not candidates.size:
            return False
        victim = int(self._residency.page_policy.victims(candidates, 1)[0])
        self._pool.vacate(victim)
        self._residency.released([victim])
        self._residency.counters.evicted_from_host += 1
        return True

    def _drop_cached(self) -> bool:
        """Give up the stalest page that nobody references, though it may be nowhere else."""
        residency = self._residency
        for page in residency.stalest():
            has_row = self._pool.rows[page] != NOWHERE
            if has_row and page not in residency.being_written and not residency.in_step[page]:
                residency.discard(page)
                residency.counters.evicted_from_host += 1
                return True
        return False

    def _kept_below(self) -> Ids:
        """Pages with a row that the store has, too."""
        clean: Ids = self._pool.page_of_row[self._pool.state == RowState.CLEAN]
        kept: Ids = clean[self._residency.stored[clean]]
        return kept

    # Writing down

    def completed(self, pages: Sequence[PageId]) -> None:
        """Pages of record whose last layer was put: they are immutable now, and are written down."""
        if not self._pool.num_rows:
            return
        bounds = self._residency.bounds
        for page in pages:
            row = int(self._pool.rows[page])
            if bounds is not None:
                self._pool.append(row, self._residency.device.num_layers, bounds.of(page))
            self._pool.state[row] = RowState.CLEAN if self._writer is None else RowState.UNWRITTEN
        self._write_down(pages)

    def collect(self, *, wait: bool = False) -> None:
        """Take note of what the writer has done; with `wait`, of at least one page, if any is being written."""
        if self._writer is None:
            return
        for result in self._writer.collect(wait=wait):
            self._residency.being_written.remove(result.page)
            self._take_note(result)

    def drain(self) -> None:
        """Wait until everything is written, or refused."""
        while self._residency.being_written:
            self.collect(wait=True)

    def close(self) -> None:
        """Drain, and end the writer."""
        if self._writer is not None:
            self._writer.close()
            self.collect()

    def _write_down(self, pages: Sequence[PageId]) -> None:
        """Hand complete pages of record to the writer."""
        if self._writer is None:
            return
        jobs: list[WriteJob] = []
        for page in pages:
            record = self._residency.table.record_of(page)
            assert record is not None, f"page {page} is not complete"
            owner, data = min(record.owners), self._pool.view(int(self._pool.rows[page]))
            jobs.append(WriteJob(page, record.identity, record.parent, record.token_ids, owner, record.origin, data))
        self._residency.being_written.update(pages)
        self._writer.submit(jobs)

    def _take_note(self, result: WriteResult) -> None:
        """A page is kept below from now on; or it is not, and its row is all there is of it besides the device."""
        residency, page = self._residency, result.page
        if result.stored is None:
            residency.counters.not_written += 1
            residency.report(result.problem or "")
            if residency.device.num_resident[page] == residency.device.num_layers:
                self._pool.vacate(page)  # the device has it; the write buffer is for others
            return
        residency.counters.written += 1
        record = residency.table.record_of(page)
        assert record is not None, "a page being written is not discarded"
        assert self._space is not None
        record.stored, residency.stored[page] = result.stored, True
        for owner in record.owners - {result.owner}:  # who came while it was being written
            self._space.add_owner([record.identity], owner)
        self._pool.state[self._pool.rows[page]] = RowState.CLEAN
