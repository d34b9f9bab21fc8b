"""Reads pages back from the page store: whole pages in batches, or one layer of a group of them.

The store reads in the background: the next batch while one is copied, and what the next layer will probably ask for
while this one computes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.kv.memory import page_memory
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.store import PageSpace, Read, StoredPage

_BATCH = 64  # pages being read while as many are copied
_BUFFERED = 16  # of them at most, that have no place to stay


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A page to be read; `row` uint8 `[num_records, slot_bytes]` in RAM is where to, None where it does not stay.

    A row of fewer records takes the first ones.
    """

    page: PageId
    stored: StoredPage
    row: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class PageBytes:
    """A page that was read: uint8 `[num_records, slot_bytes]`, valid until the next one; or what is wrong with it."""

    page: PageId
    data: Tensor
    problem: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _Ahead:
    """One layer of pages that is being read before anybody asked; `problems` has one entry a page."""

    layer: int
    identities: list[bytes]
    problems: Future[list[str | None]]


class StoreReader:
    """Reads pages of `num_records` records of `slot_bytes`, and layers of up to `group` pages.

    Its buffers are allocated at their first use: two of a batch of pages, and two of one layer of a group, one for
    what is asked for and one for what will be.
    """

    def __init__(self, space: PageSpace, num_records: int, slot_bytes: int, group: int) -> None:
        self._space = space
        self._num_records = num_records
        self._slot_bytes = slot_bytes
        self._group = group
        self._ahead: _Ahead | None = None

    def pages(self, wanted: Sequence[Wanted]) -> Generator[PageBytes, None, None]:
        """Every page that is wanted, in order. Once it is closed nothing is written to the rows any more."""
        size = _BUFFERED if any(item.row is None for item in wanted) else _BATCH
        batches = [wanted[at : at + size] for at in range(0, len(wanted), size)]
        buffers, reading = self._start(batches[0], 0)
        try:
            for index, batch in enumerate(batches):
                ready, problems = buffers, reading.result()
                if index + 1 < len(batches):
                    buffers, reading = self._start(batches[index + 1], (index + 1) % 2)
                for item, buffer, problem in zip(batch, ready, problems, strict=True):
                    yield PageBytes(item.page, buffer, problem)
        finally:
            reading.result()

    def layer(self, layer: int, stored: Sequence[StoredPage]) -> tuple[Tensor, list[str | None]]:
        """One layer of up to `group` pages, and what is wrong with each.

        uint8 `[len(stored), slot_bytes]`, valid until the next call.
        """
        ahead = self._take_ahead(layer)
        buffer, _ = self._layers
        reads: list[Read] = []
        problems: list[str | None] = [None] * len(stored)
        at: list[int] = []
        for i, page in enumerate(stored):
            if page.identity in ahead:
                buffer[i] = ahead[page.identity]
            else:
                reads.append((page, layer, 1, buffer[i].data))
                at.append(i)
        if reads:
            for i, problem in zip(at, self._space.submit_read(reads).result(), strict=True):
                problems[i] = problem
        return torch.from_numpy(buffer[: len(stored)]), problems

    def expect(self, layer: int, stored: Sequence[StoredPage]) -> None:
        """Start reading what the next call of `layer` may ask for; a guess that is wrong costs only the reading."""
        self._take_ahead(layer)
        if not stored:
            return
        _, buffer = self._layers
        reads: list[Read] = [(page, layer, 1, buffer[i].data) for i, page in enumerate(stored)]
        self._ahead = _Ahead(layer, [page.identity for page in stored], self._space.submit_read(reads))

    def close(self) -> None:
        """Wait for what is being read: the store may be closed after that."""
        if self._ahead is not None:
            self._ahead.problems.result()
            self._ahead = None

    def _take_ahead(self, layer: int) -> dict[bytes, NDArray[np.uint8]]:
        """What was read ahead of this layer, by identity; a buffer is not given away while it is written to."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return {}
        problems = ahead.problems.result()
        if ahead.layer != layer:
            return {}
        _, buffer = self._layers
        rows = zip(ahead.identities, problems, buffer, strict=False)
        return {identity: row for identity, problem, row in rows if problem is None}

    @cached_property
    def _layers(self) -> NDArray[np.uint8]:
        return np.empty((2, self._group, self._slot_bytes), dtype=np.uint8)

    @cached_property
    def _batches(self) -> Tensor:
        return page_memory(2, _BUFFERED, self._num_records, self._slot_bytes)

    def _start(self, batch: Sequence[Wanted], side: int) -> tuple[list[Tensor], Future[list[str | None]]]:
        """Begin to read whole pages to where they are wanted, or else into one of the two buffers."""
        buffers = [self._batches[side, i] if item.row is None else item.row for i, item in enumerate(batch)]
        reads: list[Read] = [
            (item.stored, 0, len(buffer), buffer.numpy().data.cast("B"))
            for item, buffer in zip(batch, buffers, strict=True)
        ]
        return buffers, self._space.submit_read(reads)
