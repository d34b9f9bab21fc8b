"""Which sequences run in the next step: all that decode, plus one chunk of one that prefills.

A sequence is admitted, first come first served, when the pages of its prompt and of its longest answer are there;
so a running answer never finds the pool empty.
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
    """`length` tokens of a prompt, from `start`, a page boundary."""

    sequence: Sequence
    start: int
    length: int

    @property
    def is_last(self) -> bool:
        return self.start + self.length == self.sequence.num_prompt


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one step."""

    decode: list[Sequence]
    prefill: Chunk | None

    @property
    def sequences(self) -> list[Sequence]:
        return self.decode + ([self.prefill.sequence] if self.prefill else [])


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

    def find(self, request_id: int) -> Sequence | None:
        for sequence in (*self._running, *self._waiting):
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
        """Admit what fits, and take the pages the step will write."""
        while self._waiting and len(self._running) < self._config.max_sequences and self._admit():
            self._running.append(self._waiting.popleft())
        decode = [sequence for sequence in self._running if not sequence.is_prefilling]
        prefilling = next((sequence for sequence in self._running if sequence.is_prefilling), None)
        chunk = None
        if prefilling is not None:
            start = prefilling.num_computed
            chunk = Chunk(prefilling, start, min(self._config.prefill_chunk, prefilling.num_prompt - start))
            self._grow(prefilling, start + chunk.length)
        for sequence in decode:
            self._grow(sequence, len(sequence.token_ids))
        return Step(decode, chunk)

    def _grow(self, sequence: Sequence, num_tokens: int) -> None:
        assert sequence.pages is not None
        self._cache.grow(sequence.pages, num_tokens)

    def _admit(self) -> bool:
        """Open the first waiting sequence on the pages it can reuse, if the rest of what it may need is there."""
        if self._refused_at == self._cache.pages.num_changes:
            return False  # hashing a long prompt again at every step would find the same pages
        sequence = self._waiting[0]
        pages = self._cache.open(sequence.token_ids)
        missing = self._cache.num_pages_for(sequence.limit) - len(pages.page_ids)
        if missing + self._promised() > self._cache.pages.num_available:
            self._cache.close(pages)
            self._refused_at = self._cache.pages.num_changes
            return False
        sequence.pages = pages
        sequence.num_computed = sequence.num_reused = pages.num_complete * self._cache.page_size
        sequence.admitted = time.perf_counter()
        return True

    def _promised(self) -> int:
        """Pages the running sequences may still take."""
        return sum(self._cache.num_pages_for(sequence.limit) - len(sequence.page_ids) for sequence in self._running)
