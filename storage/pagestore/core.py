"""What the parts of an open page store share."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path

from octavo.storage.pagestore.aligned_io import UNIT
from octavo.storage.pagestore.extents import ExtentMap
from octavo.storage.pagestore.index import Index, StoredPage
from octavo.storage.pagestore.records import Place, Shape
from octavo.storage.pagestore.segments import SegmentFiles

INDEX_FILE = "index.db"
_MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class SpaceKey:
    """A space as the index knows it."""

    number: int
    root: bytes
    shape: Shape


class Leases:
    """Pages being read now: their places are not used again before the reads end."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._ended = threading.Condition()

    def hold(self, page_ids: Iterable[int]) -> None:
        with self._ended:
            for page_id in page_ids:
                self._counts[page_id] = self._counts.get(page_id, 0) + 1

    def release(self, page_ids: Iterable[int]) -> None:
        with self._ended:
            for page_id in page_ids:
                self._counts[page_id] -= 1
                if not self._counts[page_id]:
                    del self._counts[page_id]
            self._ended.notify_all()

    def held(self) -> frozenset[int]:
        with self._ended:
            return frozenset(self._counts)

    def wait(self, page_ids: Iterable[int]) -> None:
        """Return when none of these pages is being read."""
        waited_for = frozenset(page_ids)
        with self._ended:
            self._ended.wait_for(lambda: waited_for.isdisjoint(self._counts))


class WritesUnderWay:
    """Batches that are being written, the oldest first, with the depths of their pages, which no index knows yet.

    For whoever holds the right to write.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[Future[list[str | None]], Mapping[bytes, int]]] = deque()

    def add(self, batch: Future[list[str | None]], depths: Mapping[bytes, int]) -> None:
        self._batches.append((batch, depths))

    def wait(self, most: int = 0) -> None:
        """Return when no more than `most` batches are under way."""
        while self._batches and (len(self._batches) > most or self._batches[0][0].done()):
            wait([self._batches.popleft()[0]])

    def depths(self) -> dict[bytes, int]:
        """Depths of the pages that are under way, by identity."""
        self.wait(len(self._batches))
        return {identity: depth for _, depths in self._batches for identity, depth in depths.items()}


@dataclass(slots=True)
class Core:
    """The state of an open store.

    Whoever writes holds `writing`; `noting` guards the small things that any thread may change.
    """

    folder: Path
    cap: int | None  # bytes; None: as large as it is now, no more
    files: SegmentFiles
    index: Index
    writable: bool
    extents: ExtentMap = field(default_factory=ExtentMap)
    leases: Leases = field(default_factory=Leases)
    writing: threading.RLock = field(default_factory=threading.RLock)
    under_way: WritesUnderWay = field(default_factory=WritesUnderWay)
    not_kept: deque[Place] = field(default_factory=deque)  # places of pages that were not; whoever writes frees them
    noting: threading.Lock = field(default_factory=threading.Lock)
    totals: Counter[str] = field(default_factory=Counter)
    bad: set[int] = field(
        default_factory=set
    )  # pages that were found damaged: served no more, dropped at the next write
    uses: dict[int, int] = field(default_factory=dict)  # page -> time of last use, not yet in the index
    problems: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_PROBLEMS))
    index_is_damaged: bool = False
    next_segment: int = 1
    last_epoch: int = 0

    def note(self, problem: str) -> None:
        """Remember a problem for whoever asks; the same one once."""
        with self.noting:
            if problem not in self.problems:
                self.problems.append(problem)

    def add(self, **amounts: int) -> None:
        with self.noting:
            for name, amount in amounts.items():
                self.totals[name] += amount

    def settle(self) -> None:
        """Return when nothing is being written any more. For whoever holds the right to write, outside transactions."""
        self.under_way.wait()
        while self.not_kept:
            self.extents.release(self.not_kept.popleft())

    def mark_bad(self, page: StoredPage) -> None:
        with self.noting:
            self.bad.add(page.page_id)

    def use(self, page_ids: Iterable[int], at: int) -> None:
        """Note that pages were used."""
        with self.noting:
            self.uses.update(dict.fromkeys(page_ids, at))

    def next_epoch(self) -> int:
        """Larger than every epoch before, also those of pages that are gone."""
        self.last_epoch = max(self.last_epoch + 1, time.time_ns())
        return self.last_epoch

    @property
    def num_bytes(self) -> int:
        """Bytes on the disk: segments in full, and the index."""
        return self.extents.num_units * UNIT + self.index.num_bytes

    def write_uses(self, connection: sqlite3.Connection) -> None:
        """Put the uses noted so far into the index."""
        with self.noting:
            uses, self.uses = self.uses, {}
        connection.executemany("UPDATE pages SET last_use = ? WHERE id = ?", ((at, page) for page, at in uses.items()))

    def write_counters(self, connection: sqlite3.Connection) -> None:
        values = {"bytes_written": self.totals["bytes_written"]}
        if self.cap is not None:
            values["cap"] = self.cap
        self.index.count(connection, **values)


def now() -> int:
    """Milliseconds since 1970: when a page was used."""
    return time.time_ns() // 1_000_000
