"""Reading everything that is in a page store, to see whether it is what was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from octavo.storage.pagestore.aligned_io import UNIT
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.erasing import drop_bad
from octavo.storage.pagestore.errors import why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.records import Shape
from octavo.storage.pagestore.scanning import Window, page_at


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was read, and one sentence for everything that is not as it should be."""

    num_pages: int
    num_bytes: int
    problems: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return not self.problems


def verify(core: Core) -> VerifyReport:
    """Check every header and every record against the index, and that no two pages overlap. Raises sqlite3.Error.

    Another process may be writing meanwhile: a page that was dropped or moved since it was listed is not a problem.
    """
    shapes = {number: shape for number, (_, shape) in core.index.spaces().items()}
    pages = core.index.pages("1 ORDER BY segment, start")
    problems = [*_segments(core), *_overlaps(pages, shapes)]
    for page, problem in _damaged(core, pages, shapes):
        name, place = page.identity.hex()[:12], page.place
        problems.append(f"Page {name} in segment {place.segment}, unit {place.start}: {problem}")
    return VerifyReport(len(pages), sum(shapes[page.space].page_bytes for page in pages), tuple(problems))


def drop_damaged(core: Core) -> int:
    """Erase every page that is not what was written; how many there were. Raises OSError and sqlite3.Error."""
    shapes = {number: shape for number, (_, shape) in core.index.spaces().items()}
    damaged = [page for page, _ in _damaged(core, core.index.pages("1 ORDER BY segment, start"), shapes)]
    for page in damaged:
        core.mark_bad(page)
    drop_bad(core)
    return len(damaged)


def _damaged(core: Core, pages: list[StoredPage], shapes: dict[int, Shape]) -> Iterator[tuple[StoredPage, str]]:
    """The pages, in order of place, that are not what was written, each with what is wrong."""
    sizes = {number: num_bytes // UNIT for number, num_bytes in core.files.found().items()}
    window = None
    for page in pages:
        segment, end = page.place.segment, page.place.start + shapes[page.space].page_units
        if window is None or window.number != segment or window.num_units < end:
            window = Window(core.files, segment, max(sizes.get(segment, 0), end))
        problem = _problem(window, page, shapes[page.space])
        if problem and core.index.by_id(page.page_id) == page and not _is_being_forgotten(core, page):
            yield page, problem


def _segments(core: Core) -> Iterator[str]:
    found = core.files.found()
    for number, num_units in core.index.look("SELECT number, units FROM segments"):
        size = found.get(number)
        if size is None:
            yield f"Segment {number} is missing."
        elif size != num_units * UNIT:
            yield f"Segment {number} has {size:,} bytes; it was made with {num_units * UNIT:,}."
    if core.writable:
        used = sum(core.extents.used_units(number) for number in core.extents.segments)
        free = sum(count for number in core.extents.segments for _, count in core.extents.free_ranges(number))
        if used + free != core.extents.num_units:
            yield f"{used:,} units are taken and {free:,} are free, of {core.extents.num_units:,}."


def _overlaps(pages: list[StoredPage], shapes: dict[int, Shape]) -> Iterator[str]:
    segment, end = 0, 0
    for page in pages:
        if page.place.segment == segment and page.place.start < end:
            yield f"Two pages overlap in segment {segment} at unit {page.place.start}."
        segment, end = page.place.segment, page.place.start + shapes[page.space].page_units


def _problem(window: Window, page: StoredPage, shape: Shape) -> str:
    try:
        header, is_whole = page_at(window, page.place.start)
    except OSError as error:
        return why_not("it cannot be read", error)
    if header is None:
        return "its header is damaged."
    told = (header.epoch, header.identity, header.place, header.packed_tokens, header.packed_checksums, header.shape)
    if told != (page.page_id, page.identity, page.place, page.packed_tokens, page.packed_checksums, shape):
        return "its header is that of another page."
    return "" if is_whole else "a layer is damaged."


def _is_being_forgotten(core: Core, page: StoredPage) -> bool:
    sql = "SELECT 1 FROM owners JOIN forgetting USING (owner) WHERE page = ?"
    return bool(core.index.look(sql, [page.page_id]))
