"""Reading segments from one end to the other: what pages lie there, and whether they are whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer, units
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.records import (
    MAGIC,
    PageHeader,
    header_length,
    page_checksums,
    parse_header,
    record_seed,
)
from octavo.storage.pagestore.segments import SegmentFiles

_AHEAD_UNITS = 256
_MAGIC = np.frombuffer(MAGIC, dtype=np.uint8)


class Window:
    """A segment of `num_units`, read from front to back in long reads."""

    def __init__(self, files: SegmentFiles, number: int, num_units: int) -> None:
        self.number = number
        self.num_units = num_units
        self._files = files
        self._buffer = AlignedBuffer(_AHEAD_UNITS * UNIT)
        self._start, self._end = 0, 0  # units that the buffer holds

    def units(self, start: int, count: int) -> memoryview:
        """The bytes of units start .. start + count; valid until the next call. Raises OSError."""
        if not self._start <= start <= start + count <= self._end:
            self._load(start, count)
        begin = (start - self._start) * UNIT
        return self._buffer.view[begin : begin + count * UNIT]

    def next_magic(self, start: int) -> int:
        """The first unit from `start` on that a header may begin with; num_units if there is none. Raises OSError."""
        while start < self.num_units:
            self.units(start, 1)
            heads = self._buffer.array[: (self._end - self._start) * UNIT].reshape(-1, UNIT)[:, : len(MAGIC)]
            found = np.flatnonzero((heads[start - self._start :] == _MAGIC).all(axis=1))
            if found.size:
                return start + int(found[0])
            start = self._end
        return self.num_units

    def _load(self, start: int, count: int) -> None:
        ahead = max(count, min(_AHEAD_UNITS, self.num_units - start))
        if ahead * UNIT > len(self._buffer):
            self._buffer = AlignedBuffer(ahead * UNIT)
        self._start = self._end = 0
        try:
            self._files.read(self.number, self._buffer.view[: ahead * UNIT], start)
        except OSError:
            # What is wanted may be readable although what follows is not.
            ahead = count
            self._files.read(self.number, self._buffer.view[: ahead * UNIT], start)
        self._start, self._end = start, start + ahead


def page_at(window: Window, start: int) -> tuple[PageHeader | None, bool]:
    """The header at unit `start`, if there is a whole one that belongs there, and whether all records are whole.

    Raises OSError.
    """
    header_units = units(header_length(window.units(start, 1)))
    if not 0 < header_units <= window.num_units - start:
        return None, False
    header = parse_header(window.units(start, header_units))
    if header is None or (header.place.segment, header.place.start) != (window.number, start):
        return None, False
    shape = header.shape
    if shape.page_units > window.num_units - start:
        return None, False
    view = window.units(start, shape.page_units)
    body, seed = view[shape.header_bytes :], record_seed(header.identity, header.epoch)
    return header, page_checksums(body, seed, shape) == header.packed_checksums


def whole_pages(window: Window) -> Iterator[PageHeader]:
    """Headers of the pages of a segment whose every record passes its check. Raises OSError."""
    start = window.next_magic(0)
    while start < window.num_units:
        header, is_whole = page_at(window, start)
        if header is not None and is_whole:
            yield header
            start += header.shape.page_units
        else:
            start += 1
        start = window.next_magic(start)


def restore_segments(core: Core, segments: Iterable[tuple[int, int]]) -> int:
    """Put the pages of these segments (number, units) into the index and the map; returns how many were found."""
    headers: list[PageHeader] = []
    for number, num_units in segments:
        with core.index.atomic() as connection:
            connection.execute("INSERT OR IGNORE INTO segments VALUES (?, ?)", [number, num_units])
        core.extents.add_segment(number, num_units)
        try:
            headers += whole_pages(Window(core.files, number, num_units))
        except OSError as error:
            core.note(why_not(f"Segment {number} of the page store could not be searched for pages", error))
    headers.sort(key=lambda header: header.epoch)
    spaces = {(header.root, header.shape): 0 for header in headers}
    for root, shape in spaces:
        spaces[root, shape] = core.index.add_space(root, shape)
    with core.index.atomic() as connection:
        for header in headers:
            core.totals["bytes_written"] = max(
                core.totals["bytes_written"], header.bytes_written + header.shape.page_bytes
            )
        restored = [header for header in headers if _restore(core, spaces[header.root, header.shape], header)]
        core.write_counters(connection)
    return len(restored)


def _restore(core: Core, space: int, header: PageHeader) -> bool:
    """Take a page up again unless there is an earlier one of its identity, or its place is taken."""
    known = "SELECT 1 FROM pages WHERE id = ? OR (space = ? AND identity = ?)"
    writer = core.index.writer
    if writer.execute(known, [header.epoch, space, header.identity]).fetchone():
        return False
    if not core.extents.restore(header.place, space, header.shape.page_units):
        return False
    # When it was last used is lost; its epoch is when it was written, in nanoseconds.
    core.index.insert(writer, space, [header], header.epoch // 1_000_000)
    return True
