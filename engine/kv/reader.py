"""Reads pages back from the page store: whole pages in batches, or one layer of a group of them. Always one ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.kv.pages import PageId
from octavo.engine.kv.store import PageSpace, Read, StoredPage

_BATCH = 16  # pages being read while as many are copied


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A page to be read; `row` uint8 `[num_records, slot_bytes]` in RAM is where to, None where it does not stay."""

    page: PageId
    stored: StoredPage
    row: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class PageBytes:
    """A page that was read: uint8 `[num_records, slot_bytes]`, valid until the next one; or what is wrong with it."""

    page: PageId
    data: Tensor
    problem: str | None


class StoreReader:
    """Two buffers of a batch of pages, and three of one layer of `group` pages, allocated at their first use."""

    def __init__(self, space: PageSpace, num_records: int, slot_bytes: int, group: int) -> None:
        self._space = space
        self._num_records = num_records
        self._slot_bytes = slot_bytes
        self._group = group
        self._pages: Tensor | None = None
        self._side = 0
        self._ahead: tuple[int, list[bytes], Future[list[str | None]]] | None = None

    def pages(self, wanted: Sequence[Wanted]) -> Iterator[PageBytes]:
        """Every page that is wanted, in order."""
        if self._pages is None:
            self._pages = torch.empty(2, _BATCH, self._num_records, self._slot_bytes, dtype=torch.uint8)
        batches = [wanted[at : at + _BATCH] for at in range(0, len(wanted), _BATCH)]
        started = [self._start(batch, self._pages[0]) for batch in batches[:1]]
        for index, batch in enumerate(batches):
            buffers, future = started.pop()
            problems = future.result()
            if index + 1 < len(batches):
                started.append(self._start(batches[index + 1], self._pages[(index + 1) % 2]))
            for item, buffer, problem in zip(batch, buffers, problems, strict=True):
                yield PageBytes(item.page, buffer, problem)

    def layer(self, layer: int, stored: Sequence[StoredPage]) -> tuple[Tensor, list[str | None]]:
        """One layer of up to `group` pages: uint8 `[len(stored), slot_bytes]`, valid until the next but one call."""
        ahead = self._take_ahead(layer)
        side = self._next_side()
        buffer = self._layers[side]
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
        buffer = self._layers[2]
        reads: list[Read] = [(page, layer, 1, buffer[i].data) for i, page in enumerate(stored)]
        self._ahead = (layer, [page.identity for page in stored], self._space.submit_read(reads))

    def _take_ahead(self, layer: int) -> dict[bytes, NDArray[np.uint8]]:
        """What was read ahead of this layer, by identity; a buffer is not given away while it is written to."""
        if self._ahead is None:
            return {}
        ahead_of, identities, future = self._ahead
        self._ahead, problems = None, future.result()
        if ahead_of != layer:
            return {}
        rows = zip(identities, self._layers[2], problems, strict=False)
        return {identity: row for identity, row, problem in rows if problem is None}

    def _next_side(self) -> int:
        self._side = 1 - self._side
        return self._side

    @cached_property
    def _layers(self) -> NDArray[np.uint8]:
        return np.empty((3, self._group, self._slot_bytes), dtype=np.uint8)

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead[2].result()
            self._ahead = None

    def _start(self, batch: Sequence[Wanted], staging: Tensor) -> tuple[list[Tensor], Future[list[str | None]]]:
        buffers = [staging[i] if item.row is None else item.row for i, item in enumerate(batch)]
        reads: list[Read] = [
            (item.stored, 0, self._num_records, buffer.numpy().data.cast("B"))
            for item, buffer in zip(batch, buffers, strict=True)
        ]
        return buffers, self._space.submit_read(reads)
