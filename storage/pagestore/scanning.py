"""Finding the pages of a segment from what lies in it, for an index that was lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.records import (
    MAGIC,
    PageHeader,
    header_length,
    parse_header,
    record_checksum,
    record_seed,
)
from octavo.storage.pagestore.segments import SegmentFiles

_STEP_UNITS = 256
_MAGIC = np.frombuffer(MAGIC, dtype=np.uint8)


def restore_segments(core: Core, segments: Iterable[tuple[int, int]]) -> int:
    """Put the pages of these segments (number, units) into the index and the map; returns how many were found."""
    headers: list[PageHeader] = []
    for number, num_units in segments:
        with core.index.atomic() as connection:
            connection.execute("INSERT OR IGNORE INTO segments VALUES (?, ?)", [number, num_units])
        core.extents.add_segment(number, num_units)
        try:
            headers += whole_pages(core.files, number, num_units)
        except OSError as error:
            core.note(why_not(f"Segment {number} of the page store could not be searched for pages", error))
    headers.sort(key=lambda header: header.epoch)
    return sum(_restore(core, header) for header in headers)


def _restore(core: Core, header: PageHeader) -> bool:
    """Take a page up again unless there is an earlier one of its identity, or its place is taken."""
    space = core.index.add_space(header.root, header.shape)
    if core.index.find(space, [header.identity]) or core.index.by_id(header.epoch) is not None:
        return False
    if not core.extents.restore(header.place, space, header.shape.page_units):
        return False
    core.totals["bytes_written"] = max(core.totals["bytes_written"], header.bytes_written + header.shape.page_bytes)
    with core.index.atomic() as connection:
        # When it was last used is lost; its epoch is when it was written, in nanoseconds.
        core.index.insert(connection, space, header, header.epoch // 1_000_000)
    return True


def whole_pages(files: SegmentFiles, number: int, num_units: int) -> Iterator[PageHeader]:
    """Headers of the pages of a segment whose every record passes its check. Raises OSError."""
    buffer = AlignedBuffer(_STEP_UNITS * UNIT)
    position = 0
    while position < num_units:
        count = min(_STEP_UNITS, num_units - position)
        files.read(number, buffer.view[: count * UNIT], position)
        starts = (buffer.array[: count * UNIT].reshape(count, UNIT)[:, : len(MAGIC)] == _MAGIC).all(axis=1)
        following = position + count
        for unit in np.flatnonzero(starts):
            start = position + int(unit)
            used = header_length(buffer.view[int(unit) * UNIT : int(unit) * UNIT + UNIT])
            header = read_header(files, number, start, -(-used // UNIT), num_units)
            if header is not None and is_whole(files, header):
                yield header
                following = start + header.shape.page_units
                break
        position = following


def read_header(files: SegmentFiles, number: int, start: int, header_units: int, num_units: int) -> PageHeader | None:
    """The header at unit `start`, if it is whole, belongs there, and its page ends within the segment."""
    if not 0 < header_units <= num_units - start:
        return None
    buffer = AlignedBuffer(header_units * UNIT)
    files.read(number, buffer.view, start)
    header = parse_header(buffer.view)
    if header is None or (header.place.segment, header.place.start) != (number, start):
        return None
    return header if header.shape.page_units <= num_units - start else None


def is_whole(files: SegmentFiles, header: PageHeader) -> bool:
    """Whether every record of the page is what was written. Raises OSError."""
    shape = header.shape
    buffer = AlignedBuffer(shape.page_bytes)
    files.read(header.place.segment, buffer.view, header.place.start)
    seed = record_seed(header.identity, header.epoch)
    for layer, checksum in enumerate(header.checksums):
        begin = shape.header_bytes + layer * shape.stride
        if record_checksum(buffer.view[begin : begin + shape.record_bytes], seed, layer) != checksum:
            return False
    return True
