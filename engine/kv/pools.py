"""The memory of the two tiers in this process: device slots of one layer of a page each, host rows of a whole page.

Residency on the device is kept per layer, `slots[layer, page]`, because layers that read different pages keep
different pages near. On the host a page is one row, so that writing it down and reading it back are long runs. A
complete page's bytes go to its row in the moment they are encoded: a device slot is always clean, and evicting it is
forgetting a number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.kv.codec import PageLayout
from octavo.engine.kv.memory import page_memory
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.staged_copies import StagedCopies

NOWHERE = -1
Ids = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


class DevicePool:
    """Slots, allocated once.

    `slab`: uint8 `[num_slots + num_stream, slot_bytes]`; the last `num_stream` slots belong to no page, what must be
    read but does not stay passes through them. `tails`: `[num_tails * num_layers, 2, kv_heads, page_size, head_dim]`
    in the type K and V are computed in; the unfinished pages of running sequences. `slots`: int32 `[num_layers,
    capacity]`, a slot or NOWHERE.
    """

    def __init__(
        self,
        layout: PageLayout,
        num_layers: int,
        num_slots: int,
        num_stream: int,
        num_tails: int,
        tail_dtype: torch.dtype,
        device: str,
    ) -> None:
        self.layout = layout
        self.num_layers = num_layers
        self.num_slots = num_slots
        shape = num_slots + num_stream, layout.slot_bytes
        self.slab = page_memory(*shape) if device == "cpu" else torch.empty(shape, dtype=torch.uint8, device=device)
        self.tails = torch.empty(
            num_tails * num_layers,
            2,
            layout.num_kv_heads,
            layout.page_size,
            layout.head_dim,
            dtype=tail_dtype,
            device=device,
        )
        self.stream_slots = np.arange(num_slots, num_slots + num_stream, dtype=np.int64)
        self.slots = np.full((num_layers, 0), NOWHERE, dtype=np.int32)
        self.num_resident = np.zeros(0, dtype=np.int32)  # layers of each page that have a slot
        self.page_of_slot = np.full(num_slots, NOWHERE, dtype=np.int64)
        self._layer_of_slot = np.zeros(num_slots, dtype=np.int64)
        self._free = np.arange(num_slots - 1, -1, -1, dtype=np.int64)
        self.num_free = num_slots
        self.most_occupied = 0  # slots, at any time
        self._rows = RowCopier(self.slab)

    @property
    def nbytes(self) -> int:
        return self.slab.nbytes + self.tails.nbytes

    @property
    def page_size(self) -> int:
        return self.layout.page_size

    def resize(self, capacity: int) -> None:
        """Make room in the tables for page ids below `capacity`."""
        self.slots = grown(self.slots, capacity, NOWHERE)
        self.num_resident = grown(self.num_resident, capacity, 0)

    def key(self, layers: Ids | int, pages: Ids) -> Ids:
        """One number for a layer of a page."""
        keys: Ids = pages * self.num_layers + layers
        return keys

    def place(self, layers: Ids, pages: Ids) -> Ids:
        """Free slots for `layers[i]` of `pages[i]`, which have none; at most `num_free` at once."""
        count = len(pages)
        assert count <= self.num_free
        taken = self._free[self.num_free - count : self.num_free][::-1].copy()
        self.num_free -= count
        self.most_occupied = max(self.most_occupied, self.num_slots - self.num_free)
        self.slots[layers, pages] = taken
        self.page_of_slot[taken] = pages
        self._layer_of_slot[taken] = layers
        np.add.at(self.num_resident, pages, 1)
        return taken

    def vacate(self, slots: Ids) -> Ids:
        """Forget what lies in occupied `slots`; returns the pages that lost a layer."""
        pages = self.page_of_slot[slots]
        self.slots[self._layer_of_slot[slots], pages] = NOWHERE
        self.page_of_slot[slots] = NOWHERE
        self._free[self.num_free : self.num_free + len(slots)] = slots
        self.num_free += len(slots)
        np.subtract.at(self.num_resident, pages, 1)
        return np.unique(pages)

    def vacate_page(self, page: PageId) -> None:
        slots = self.slots[:, page]
        self.vacate(slots[slots != NOWHERE].astype(np.int64))

    def keys_of_slots(self, slots: Ids) -> Ids:
        return self.key(self._layer_of_slot[slots], self.page_of_slot[slots])

    def resident_keys(self, pages: Ids) -> Ids:
        """Keys of every layer of `pages` that has a slot."""
        layers, at = np.nonzero(self.slots[:, pages] != NOWHERE)
        return self.key(layers, pages[at])

    def slots_of_keys(self, keys: Ids) -> Ids:
        return self.slots[keys % self.num_layers, keys // self.num_layers].astype(np.int64)

    def write(self, slots: Ids, encoded: Tensor) -> None:
        """`encoded` uint8 `[len(slots), slot_bytes]`, on any device, into slots."""
        self._rows.write(slots, encoded)

    def run_of(self, slots: Ids) -> Tensor | None:
        """Slots that lie one behind the other in RAM, uint8 `[len(slots), slot_bytes]`, to be written to as one."""
        first, count = int(slots[0]), len(slots)
        if self.slab.is_cuda or not np.array_equal(slots, np.arange(first, first + count)):
            return None
        return self.slab[first : first + count]

    def table(self, pages: Ids) -> Tensor:
        """Slots of `pages` in every layer: int32 `[num_layers, *pages.shape]` on the slab's device."""
        return torch.from_numpy(np.ascontiguousarray(self.slots[:, pages])).to(self.slab.device)

    def tail_slots(self, tails: list[int]) -> Tensor:
        """Slots of the unfinished pages `tails` in every layer: int32 `[num_layers, len(tails)]`."""
        first = torch.tensor(tails, dtype=torch.int32) * self.num_layers
        layers = torch.arange(self.num_layers, dtype=torch.int32)
        return (first[None, :] + layers[:, None]).to(self.slab.device)

    def tail_of(self, tail: int) -> Tensor:
        """The unfinished page `tail` in every layer: `[num_layers, 2, kv_heads, page_size, head_dim]`."""
        return self.tails[tail * self.num_layers : (tail + 1) * self.num_layers]

    def check_conservation(self) -> None:
        """Raise AssertionError unless free and occupied slots are all there are, and both tables agree."""
        occupied = np.flatnonzero(self.page_of_slot != NOWHERE)
        if len(occupied) + self.num_free != self.num_slots:
            raise AssertionError(f"{len(occupied)} occupied + {self.num_free} free != {self.num_slots} slots")
        if not np.array_equal(self.slots_of_keys(self.keys_of_slots(occupied)), occupied):
            raise AssertionError("a slot and its page do not know of each other")
        if not np.array_equal((self.slots != NOWHERE).sum(axis=0), self.num_resident):
            raise AssertionError("a page is resident in more or fewer layers than counted")


class RowState(IntEnum):
    """What a host row holds. A row being filled or not yet written down cannot be given up."""

    FREE = 0
    FILLING = 1
    UNWRITTEN = 2
    CLEAN = 3  # written down, or there is nothing to write it to


class HostPool:
    """Rows `[num_records, slot_bytes]` of RAM, one page each; pinned where a GPU copies from them.

    A record is a layer; what is kept beside the layers fills the last records.
    """

    def __init__(self, num_rows: int, num_records: int, slot_bytes: int, *, pinned: bool) -> None:
        self.slab = page_memory(num_rows, num_records, slot_bytes, pinned=pinned)
        self.rows = np.full(0, NOWHERE, dtype=np.int32)
        self.page_of_row = np.full(num_rows, NOWHERE, dtype=np.int64)
        self.state = np.full(num_rows, RowState.FREE, dtype=np.int8)
        self._array: NDArray[np.uint8] = self.slab.numpy()
        self._free = list(range(num_rows - 1, -1, -1))

    @property
    def num_rows(self) -> int:
        return len(self.page_of_row)

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def nbytes(self) -> int:
        return self.slab.nbytes

    def resize(self, capacity: int) -> None:
        self.rows = grown(self.rows, capacity, NOWHERE)

    def place(self, page: PageId, state: RowState) -> int:
        """A free row for `page`."""
        row = self._free.pop()
        self.rows[page], self.page_of_row[row], self.state[row] = row, page, state
        return row

    def vacate(self, page: PageId) -> None:
        """Give up the page's row, if it has one."""
        row = int(self.rows[page])
        if row == NOWHERE:
            return
        self.rows[page], self.page_of_row[row], self.state[row] = NOWHERE, NOWHERE, RowState.FREE
        self._free.append(row)

    def view(self, row: int) -> memoryview:
        """The bytes of a row, layer by layer."""
        row_bytes: memoryview = self._array[row].data.cast("B")
        return row_bytes

    def write(self, rows: Ids, layer: int, encoded: Tensor) -> None:
        """`encoded` `[len(rows), slot_bytes]` into one layer of `rows`."""
        if encoded.is_cuda:
            encoded = encoded.cpu()
        self._array[rows, layer] = encoded.numpy()

    def append(self, row: int, num_layers: int, data: NDArray[np.uint8]) -> None:
        """Fill the records of a row after its layers with `data`, and zeros."""
        rest = self._array[row, num_layers:].reshape(-1)
        rest[: len(data)] = data
        rest[len(data) :] = 0

    def read(self, rows: Ids, layers: Ids | int) -> Tensor:
        """uint8 `[len(rows), slot_bytes]`, a copy."""
        return torch.from_numpy(self._array[rows, layers])

    def check_conservation(self) -> None:
        """Raise AssertionError unless free and occupied rows are all there are, and both tables agree."""
        occupied = np.flatnonzero(self.page_of_row != NOWHERE)
        if len(occupied) + self.num_free != self.num_rows:
            raise AssertionError(f"{len(occupied)} occupied + {self.num_free} free != {self.num_rows} rows")
        if not np.array_equal(self.rows[self.page_of_row[occupied]], occupied):
            raise AssertionError("a row and its page do not know of each other")


class RowCopier:
    """Writes rows of a slab; on a CPU by numpy, whose row assignment is several times faster than torch's, and from RAM
    to a GPU through StagedCopies."""

    def __init__(self, slab: Tensor) -> None:
        self._slab = slab
        # Eight bytes at a time; a slot is a multiple of 64 bytes.
        self._array = slab.view(torch.int64).numpy() if slab.device.type == "cpu" else None
        self._staged = StagedCopies(slab) if slab.device.type == "cuda" else None

    def write(self, slots: Ids, encoded: Tensor) -> None:
        if self._array is not None:
            self._array[slots] = encoded.view(torch.int64).numpy()
        elif self._staged is not None and not encoded.is_cuda:
            self._staged.write(slots, encoded)
        else:
            self._slab.index_copy_(0, torch.from_numpy(slots).to(self._slab.device), encoded)


def grown(table: NDArray[T], capacity: int, value: int) -> NDArray[T]:
    """`table` with room for `capacity` entries in its last dimension, doubled so that growing stays cheap."""
    have = table.shape[-1]
    if capacity <= have:
        return table
    grown = np.full((*table.shape[:-1], max(capacity, 2 * have, 64)), value, dtype=table.dtype)
    grown[..., :have] = table
    return grown
