"""`octavo bench store`: the page store against the bare disk, in the same folder and the same run."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.storage.pages import Space

_BATCH_PAGES = 64  # written together, with one sync, as the engine does
_READ_PAGES = 64  # asked for together
_READS_AHEAD = 2  # calls under way at a time
_PAGE_TOKENS = 32
_KINDS = ("write", "read", "random_read")


@dataclass(frozen=True, slots=True)
class _Page:
    identity: bytes
    parent: bytes
    token_ids: tuple[int, ...]
    data: memoryview
    owner: str = "bench"
    origin: str = "prefill"


@click.command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="On the disk to measure.")
@click.option("--megabytes", type=click.IntRange(16), default=256, show_default=True, help="Written in each round.")
@click.option("--rounds", type=click.IntRange(1, 100), default=7, show_default=True, help="Their medians count.")
@click.option("--layers", type=click.IntRange(1, 512), default=24, show_default=True, help="Layers of a page.")
@click.option("--record-bytes", type=click.IntRange(64), default=7168, show_default=True, help="Bytes of one layer.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def store(folder: Path | None, megabytes: int, rounds: int, layers: int, record_bytes: int, as_json: bool) -> None:
    """Write and read speed of the page store, beside the bare disk's.

    The bare disk is a file in the same folder, written and read past the page cache in blocks of the same size, by as
    many threads, with a sync as often; it is written from, and read to, a few buffers that stay in the processor's
    caches. The store goes on with further pages while a sync runs. Bytes are those on the disk, headers and padding
    among them. Rounds of both take turns. Without --folder, the page store's own place is measured.
    """
    from octavo.storage.paths import Paths, create_private

    parent = create_private(folder or Paths.from_environment().cache)
    place = Path(tempfile.mkdtemp(prefix="bench-store-", dir=parent))
    try:
        bench = _Bench(place, megabytes * 10**6, layers, record_bytes)
        speeds = bench.run(rounds)
    except OSError as error:
        raise AppError(f"The disk at {place.parent} could not be measured: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    click.echo(f"{bench.num_pages} pages of {bench.page_bytes:,} bytes in each of {rounds} rounds, {bench.access}")
    click.echo(f"{'':<12} {'store MB/s':>11} {'disk MB/s':>11} {'ratio':>7}")
    for kind in _KINDS:
        ours, raw = speeds[f"{kind}_mb_s"], speeds[f"raw_{kind}_mb_s"]
        click.echo(f"{kind.replace('_', ' '):<12} {ours:>11,.0f} {raw:>11,.0f} {ours / raw:>7.2f}")
    if as_json:
        ratio = min(speeds[f"{kind}_mb_s"] / speeds[f"raw_{kind}_mb_s"] for kind in _KINDS)
        click.echo(json.dumps(speeds | {"ratio": round(ratio, 4), "page_bytes": bench.page_bytes, "rounds": rounds}))


class _Bench:
    """One set of pages, written and read by the store and, in equal blocks, by hand."""

    def __init__(self, folder: Path, num_bytes: int, layers: int, record_bytes: int) -> None:
        from octavo.storage.pages import open_store

        self._folder = folder
        self._store = open_store(folder / "pages", cap=32 * num_bytes)
        root = hashlib.sha256(b"bench").digest()
        self._space = self._store.open_space(root, {"codec": "bench"}, layers, record_bytes, _PAGE_TOKENS)
        self.page_bytes = self._space.shape.page_bytes
        self.num_pages = max(num_bytes // self.page_bytes // _READ_PAGES, 1) * _READ_PAGES
        self._pages = list(_chain(root, self.num_pages, layers * record_bytes))
        self.access = "past the page cache" if self._store.stats().direct else "through the page cache"

    def run(self, rounds: int) -> dict[str, float]:
        """Median MB/s (10^6 bytes) of every kind."""
        raw = _Raw(self._folder / "raw", self._space, self.num_pages, direct=self._store.stats().direct)
        samples: dict[str, list[float]] = {}
        try:
            for number in range(rounds + 1):
                contenders = [self._round, raw.round]
                # Whoever goes first may find the disk in another state.
                for contender in contenders if number % 2 else reversed(contenders):
                    for kind, speed in contender(number).items():
                        if number:  # the first round warms up
                            samples.setdefault(kind, []).append(speed)
        finally:
            self._store.close()
        return {kind: round(statistics.median(speeds), 1) for kind, speeds in samples.items()}

    def _round(self, seed: int) -> dict[str, float]:
        from octavo.storage.pagestore.aligned_io import AlignedBuffer

        space, layers = self._space, self._space.shape.num_layers
        total, records = self.num_pages * self.page_bytes, self.num_pages * (self.page_bytes - space.shape.header_bytes)

        def write() -> None:
            under_way = [
                space.submit_write(self._pages[begin : begin + _BATCH_PAGES])
                for begin in range(0, self.num_pages, _BATCH_PAGES)
            ]
            for batch in under_way:
                _expect_none(batch.result())

        def read(order: Sequence[int]) -> None:
            under_way: deque[Future[list[str | None]]] = deque()
            for begin in range(0, self.num_pages, _READ_PAGES):
                if len(under_way) == len(buffers):
                    _expect_none(under_way.popleft().result())
                outs = buffers[begin // _READ_PAGES % len(buffers)]
                pages = [found[number] for number in order[begin : begin + _READ_PAGES]]
                reads = [(page, 0, layers, out) for page, out in zip(pages, outs, strict=True)]
                under_way.append(space.submit_read(reads))
            while under_way:
                _expect_none(under_way.popleft().result())

        page_bytes = layers * space.shape.record_bytes
        memory = [AlignedBuffer(_READ_PAGES * page_bytes).view for _ in range(_READS_AHEAD)]
        starts = range(0, _READ_PAGES * page_bytes, page_bytes)
        buffers = [[view[start : start + page_bytes] for start in starts] for view in memory]
        speeds = {"write_mb_s": _speed(total, write)}
        found = [page for page in space.find([page.identity for page in self._pages]) if page is not None]
        order = list(range(self.num_pages))
        speeds["read_mb_s"] = _speed(total, lambda: read(order))
        random.Random(seed).shuffle(order)  # noqa: S311
        speeds["random_read_mb_s"] = _speed(records, lambda: read(order))
        self._store.clear()
        return speeds


class _Raw:
    """The same blocks in one file, without a store: aligned memory straight to and from the disk."""

    def __init__(self, folder: Path, space: Space, num_pages: int, *, direct: bool) -> None:
        from octavo.storage.pagestore.aligned_io import UNIT, System, ThreadBuffers
        from octavo.storage.pagestore.reading import THREADS as READING_THREADS
        from octavo.storage.pagestore.segments import SegmentFiles
        from octavo.storage.pagestore.writing import RUN_BYTES
        from octavo.storage.pagestore.writing import THREADS as WRITING_THREADS

        folder.mkdir()
        self._threads = (WRITING_THREADS, READING_THREADS)
        self._longest_run = RUN_BYTES
        self._files = SegmentFiles(folder, System(), write=True, direct_unit=UNIT if direct else 0)
        self._buffers = ThreadBuffers()
        self._num_pages = num_pages
        self._page_units = space.shape.page_units
        self._header_units = space.shape.header_bytes // UNIT
        self._unit = UNIT

    def round(self, seed: int) -> dict[str, float]:
        files, unit, total = self._files, self._unit, self._num_pages * self._page_units * self._unit
        order = list(range(self._num_pages))
        num_writers, num_readers = self._threads
        with ThreadPoolExecutor(num_writers) as writers, ThreadPoolExecutor(num_readers) as readers:

            def write() -> None:
                files.create(1, self._num_pages * self._page_units)
                for begin in range(0, self._num_pages, _BATCH_PAGES):
                    self._all(writers, files.write, self._runs(begin, begin + _BATCH_PAGES))
                    files.sync(1)

            def read() -> None:
                runs = [self._runs(begin, begin + _READ_PAGES) for begin in range(0, self._num_pages, _READ_PAGES)]
                self._all(readers, files.read, [run for part in runs for run in part])

            def read_randomly() -> None:
                records = self._page_units - self._header_units
                starts = [number * self._page_units + self._header_units for number in order]
                self._all(readers, files.read, [(start, records) for start in starts])

            speeds = {"raw_write_mb_s": _speed(total, write), "raw_read_mb_s": _speed(total, read)}
            random.Random(seed).shuffle(order)  # noqa: S311
            records = self._num_pages * (self._page_units - self._header_units) * unit
            speeds["raw_random_read_mb_s"] = _speed(records, read_randomly)
        files.remove(1)
        return speeds

    def _runs(self, begin: int, end: int) -> list[tuple[int, int]]:
        """(unit, units) of the runs in which the store moves neighbouring pages."""
        most = max(self._longest_run // (self._page_units * self._unit), 1)
        cuts = range(begin, end, most)
        return [(first * self._page_units, (min(first + most, end) - first) * self._page_units) for first in cuts]

    def _all(
        self, threads: ThreadPoolExecutor, move: Callable[[int, memoryview, int], None], runs: list[tuple[int, int]]
    ) -> None:
        def move_run(run: tuple[int, int]) -> None:
            start, num_units = run
            move(1, self._buffers.at_least(num_units * self._unit).view[: num_units * self._unit], start)

        list(threads.map(move_run, runs))


def _chain(root: bytes, num_pages: int, num_bytes: int) -> Iterator[_Page]:
    """Pages of random bytes, each the parent of the next, aligned in memory as those of the engine are."""
    from octavo.storage.pagestore.aligned_io import AlignedBuffer

    parent, memory = root, AlignedBuffer(num_pages * num_bytes).view
    for number in range(num_pages):
        data = memory[number * num_bytes : (number + 1) * num_bytes]
        data[:] = os.urandom(num_bytes)
        identity = hashlib.sha256(parent).digest()
        tokens = tuple(range(number, number + _PAGE_TOKENS))
        yield _Page(identity, parent, tokens, data)
        parent = identity


def _speed(num_bytes: int, work: Callable[[], None]) -> float:
    """MB/s at which `work` moves so many bytes."""
    started = time.perf_counter()
    work()
    return num_bytes / 1e6 / (time.perf_counter() - started)


def _expect_none(results: Sequence[str | None]) -> None:
    for problem in results:
        if problem is not None:
            raise AppError(f"The page store could not be measured. {problem}")
