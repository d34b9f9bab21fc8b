"""What an engine holds at one moment, counted in its pools: frozen numbers that may cross threads.

Bytes, unless a name says otherwise. Only the engine's thread may measure; a snapshot costs well under a millisecond for
some thousand pages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from octavo.engine.kv.pools import NOWHERE, RowState

if TYPE_CHECKING:
    from octavo.engine.engine import Engine
    from octavo.engine.kv.cache import KvCache
    from octavo.engine.kv.residency import TierCounters


@dataclass(frozen=True, slots=True)
class Held:
    """Places of one tier: what running requests hold, what is kept to be found again, and all there are."""

    in_use: int
    cached: int
    total: int

    @property
    def occupied(self) -> int:
        return self.in_use + self.cached

    @property
    def free(self) -> int:
        return self.total - self.occupied


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """What the driver and torch's allocator say of the device; `peak` is the most that was allocated at a time."""

    free: int
    total: int
    allocated: int
    reserved: int
    peak: int


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """An engine's memory and traffic.

    `slots` are the device's places of complete pages; `tails` those of unfinished pages (none of them cached);
    `passing` is what pages that do not stay pass through, and `bounds`, `state` what else lies beside the pool.
    `rows` are the places in RAM, of which `unwritten` still wait for the disk. `most_occupied` is the most that `slots`
    ever held. `counters` have counted since the engine started. A page takes `page_bytes` for `page_size` tokens.
    """

    device: str
    weights: int
    slots: Held
    tails: Held
    passing: int
    bounds: int
    state: int
    rows: Held
    unwritten: int
    most_occupied: int
    counters: TierCounters
    num_layers: int
    page_bytes: int
    page_size: int
    context: int
    num_running: int
    num_waiting: int
    cuda: CudaMemory | None = None

    @property
    def pool(self) -> int:
        """Bytes of the device's pool, all of which are allocated when the engine starts."""
        return self.slots.total + self.tails.total + self.passing

    @property
    def hit_rate(self) -> float | None:
        """The share of page reads, layer by layer, that found the page on the device; None before the first."""
        counters = self.counters
        if not counters.layer_reads:
            return None
        brought = (counters.promoted_from_host + counters.promoted_from_disk) * self.num_layers
        return max(0.0, 1 - (counters.streamed_layers + brought) / counters.layer_reads)


def measure(engine: Engine) -> EngineFigures:
    """Count everything now."""
    cache = engine.cache
    device, host = cache.pool, cache.tiers.host
    cached = np.fromiter(cache.table.stalest(), dtype=np.int64, count=cache.table.num_cached)
    slot_bytes = cache.layout.slot_bytes
    cached_slots = int(device.num_resident[cached].sum()) if cached.size else 0
    occupied = device.num_slots - device.num_free
    row_bytes = host.nbytes // host.num_rows if host.num_rows else 0
    cached_rows = int((host.rows[cached] != NOWHERE).sum()) if cached.size and host.num_rows else 0
    tail_bytes = device.tails.nbytes // cache.num_tails
    bounds = cache.tiers.bounds
    return EngineFigures(
        device=engine.device,
        weights=engine.weight_bytes,
        slots=Held((occupied - cached_slots) * slot_bytes, cached_slots * slot_bytes, device.num_slots * slot_bytes),
        tails=Held((cache.num_tails - cache.num_free_tails) * tail_bytes, 0, device.tails.nbytes),
        passing=len(device.stream_slots) * slot_bytes,
        bounds=bounds.nbytes if bounds is not None else 0,
        state=engine.state_bytes,
        rows=_rows(cache, cached_rows, row_bytes),
        unwritten=int((host.state == RowState.UNWRITTEN).sum()) * row_bytes,
        most_occupied=device.most_occupied * slot_bytes,
        counters=replace(cache.tiers.counters),
        num_layers=device.num_layers,
        page_bytes=cache.page_bytes,
        page_size=cache.page_size,
        context=engine.max_context,
        num_running=sum(sequence.pages is not None for sequence in engine.sequences),
        num_waiting=sum(sequence.pages is None for sequence in engine.sequences),
        cuda=_cuda(engine.device),
    )


def _rows(cache: KvCache, cached: int, row_bytes: int) -> Held:
    host = cache.tiers.host
    occupied = host.num_rows - host.num_free
    return Held((occupied - cached) * row_bytes, cached * row_bytes, host.num_rows * row_bytes)


def _cuda(device: str) -> CudaMemory | None:
    if not device.startswith("cuda"):
        return None
    free, total = torch.cuda.mem_get_info(device)
    return CudaMemory(
        free,
        total,
        torch.cuda.memory_allocated(device),
        torch.cuda.memory_reserved(device),
        torch.cuda.max_memory_allocated(device),
    )
