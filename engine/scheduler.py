"""Which sequences run in the next step: all that decode, plus one chunk of one that prefills.

A sequence is admitted, first come first served, when there is a place, on any tier, for the pages of its prompt and
of its longest answer; so a running answer never finds every tier full. Beside others it also waits until all of them
fit on the device: sequences that take turns at pushing each other's pages out would all be slow.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from octavo.engine.config import EngineConfig
from octavo.engine.kv.cache import KvCache
from octavo.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """`length` known tokens of a sequence, from `start`, a page boundary."""

    sequence: Sequence
    start: int
    length: int

    @property
    def is_last(self) -> bool:
        return self.start + self.length == self.sequence.num_known


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one step."""

    decode: list[Sequence]
    prefill: Chunk | None


class Scheduler:
    """Waiting and running sequences, and the pages promised to the running ones."""

    def __init__(self, cache: KvCache, config: EngineConfig) -> None:
        self._cache = cache
        self._config = config
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._refused_at: int | None = None  # the pool's `num_changes` when the first waiting sequence was refused

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    @property
    def running(self) -> tuple[Sequence, ...]:
        return tuple(self._running)

    def all(self) -> tuple[Sequence, ...]:
        return (*self._running, *self._waiting)

    def find(self, request_id: int) -> Sequence | None:
        for sequence in self.all():
            if sequence.request_id == request_id:
                return sequence
        return None

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, running or waiting, and give its pages back."""
        self._refused_at = None
        if sequence in self._running:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)
        if sequence.pages is not None:
            self._cache.close(sequence.pages)

    def schedule(self) -> Step:
        """Admit what fits, and say what runs next."""
        while self._waiting and len(self._running) < self._config.max_sequences and self._admit():
            self._running.append(self._waiting.popleft())
        prefilling = next((sequence for sequence in self._running if sequence.is_prefilling), None)
        chunk = self._chunk(prefilling) if prefilling is not None else None
        return Step([sequence for sequence in self._running if not sequence.is_prefilling], chunk)

    def _chunk(self, sequence: Sequence) -> Chunk:
        """The next tokens of a prompt, after what others may have computed of it meanwhile."""
        self._cache.extend(sequence.running_pages, sequence.token_ids[: sequence.num_known])
        self._count_reused(sequence)
        start = sequence.num_computed
        most = min(self._config.prefill_chunk, sequence.most_rows or self._config.prefill_chunk)
        plan = self._cache.plan
        if plan.is_sparse and start < plan.dense_limit:  # a chunk is dense or sparse as a whole
            most = min(most, plan.dense_limit - start)
        return Chunk(sequence, start, min(most, sequence.num_known - start))

    def _admit(self) -> bool:
        """Open the first waiting sequence on the pages it can reuse, if the rest of what it may need is there."""
        if self._refused_at == self._cache.table.num_changes:
            return False  # hashing a long prompt again at every step would find the same pages
        sequence = self._waiting[0]
        pages = self._cache.open(sequence.token_ids, sequence.owner)
        needed = self._cache.table.num_held + self._promised() + self._missing(sequence, len(pages.page_ids))
        if needed > (self._cache.device_pages if self._running else self._cache.num_pages):
            self._cache.close(pages)
            self._refused_at = self._cache.table.num_changes
            return False
        sequence.pages = pages
        self._count_reused(sequence)
        sequence.admitted = time.perf_counter()
        return True

    def _count_reused(self, sequence: Sequence) -> None:
        """What was found of a sequence need not be computed."""
        pages = sequence.running_pages
        sequence.num_computed = pages.num_complete * self._cache.page_size
        if not sequence.num_rewinds:  # its own pages, found again after one of them was lost, are no gift
            sequence.reused = {tier: count * self._cache.page_size for tier, count in pages.reused.items()}

    def _promised(self) -> int:
        """Pages the running sequences may still take."""
        return sum(self._missing(sequence, sequence.num_pages) for sequence in self._running)

    def _missing(self, sequence: Sequence, num_pages: int) -> int:
        return self._cache.num_pages_for(sequence.limit) - num_pages
