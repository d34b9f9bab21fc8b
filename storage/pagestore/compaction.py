"""Emptying segments that are mostly free into places elsewhere, so that their files can go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.laying import lay_header
from octavo.storage.pagestore.records import Place, Shape, parse_header
from octavo.storage.pagestore.room import remove_segment


def compact(core: Core, until: Callable[[], bool] = lambda: False) -> int:
    """Remove segments, the emptiest first, while what they hold fits elsewhere; returns the bytes freed.

    Stops early when `until()` holds. Raises OSError; every page is then still where the index says it is.
    """
    freed = 0
    shapes = {number: shape for number, (_, shape) in core.index.spaces().items()}
    for number, num_units in sorted(core.extents.segments.items(), key=lambda item: core.extents.used_units(item[0])):
        if until():
            break
        if not _empty(core, number, shapes):
            continue
        remove_segment(core, number)
        freed += num_units * UNIT
    return freed


def _empty(core: Core, number: int, shapes: dict[int, Shape]) -> bool:
    """Move every page of the segment elsewhere; False, with nothing moved, if there is no room for all of them."""
    pages = core.index.pages("segment = ? ORDER BY start", [number])
    places: list[Place] = []
    for page in pages:
        taken = core.extents.take(page.space, 1, outside=number)
        if not taken and core.extents.add_run(page.space, shapes[page.space].page_units, outside=number):
            taken = core.extents.take(page.space, 1, outside=number)
        if not taken:
            break
        places += taken
    try:
        if len(places) < len(pages):
            return False
        for page, place in zip(pages, places, strict=True):
            _copy(core, page, place, shapes[page.space])
        for segment in {place.segment for place in places}:
            core.files.sync(segment)
        with core.index.atomic(durable=True) as connection:
            connection.executemany(
                "UPDATE pages SET segment = ?, start = ?, run_start = ?, run_slots = ? WHERE id = ?",
                [
                    (place.segment, place.start, place.run_start, place.run_slots, page.page_id)
                    for page, place in zip(pages, places, strict=True)
                ],
            )
            core.write_counters(connection)
    except BaseException:
        for place in places:
            core.extents.release(place)
        raise
    finally:
        if len(places) < len(pages):
            for place in places:
                core.extents.release(place)
    core.leases.wait(page.page_id for page in pages)
    for page in pages:
        core.extents.release(page.place)
    return True


def _copy(core: Core, page: StoredPage, place: Place, shape: Shape) -> None:
    """Copy a page, whose bytes keep their checksums, and say in its header where it lies now. Raises OSError."""
    buffer = AlignedBuffer(shape.page_bytes)
    core.files.read(page.place.segment, buffer.view, page.place.start)
    old = parse_header(buffer.view[: shape.header_bytes])
    if old is not None:
        lay_header(dataclasses.replace(old, place=place), buffer.view)
    core.files.write(place.segment, buffer.view, place.start)
    core.add(bytes_written=shape.page_bytes)
