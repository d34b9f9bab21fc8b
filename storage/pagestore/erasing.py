"""Making pages unreadable: what an owner wants forgotten, and what was found damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from octavo.storage.pagestore.aligned_io import UNIT
from octavo.storage.pagestore.core import Core
from octavo.storage.pagestore.errors import PageStoreError, why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.laying import header_buffer
from octavo.storage.pagestore.pins import unpin
from octavo.storage.pagestore.records import PageHeader, Shape
from octavo.storage.pagestore.room import drop_rows, remove_segment


def forget(core: Core, owner: str) -> int:
    """Remove `owner`, and erase the pages nobody else owns; returns their bytes.

    That an owner is being forgotten is on the disk first: if the process dies half-way, the next one that opens the
    store goes on. Raises PageStoreError if something could not be erased; opening the store tries again, too.
    """
    with core.index.atomic(durable=True) as connection:
        connection.execute("INSERT OR IGNORE INTO forgetting VALUES (?)", [owner])
    return finish_forgetting(core, owner)


def finish_forgetting(core: Core, owner: str) -> int:
    """The rest of `forget`, from any point at which it was cut off."""
    mine = "id IN (SELECT page FROM owners WHERE owner = ?)"
    others = "EXISTS (SELECT 1 FROM owners WHERE page = pages.id AND owner != ?)"
    shared = core.index.pages(f"{mine} AND {others}", [owner, owner])
    sole = core.index.pages(f"{mine} AND NOT {others}", [owner, owner])
    shapes = _shapes(core)
    try:
        for page in shared:
            _name_another_owner(core, page, owner)
        for segment in {page.place.segment for page in shared}:
            core.files.sync(segment)
        erase(core, sole)
        with core.index.atomic(durable=True) as connection:
            connection.execute("DELETE FROM owners WHERE owner = ?", [owner])
        unpin(core, owner)
        # Pages that were evicted or never committed left their bytes where no page is now.
        _erase_free_space(core)
    except OSError as error:
        raise PageStoreError(why_not(f"Not all pages of {owner} could be erased", error)) from error
    with core.index.atomic(durable=True) as connection:
        connection.execute("DELETE FROM forgetting WHERE owner = ?", [owner])
    core.index.checkpoint()
    return sum(shapes[page.space].page_bytes for page in sole)


def erase(core: Core, pages: Sequence[StoredPage]) -> None:
    """Invalidate the headers, then take the pages out of the index, then give their places back. Raises OSError."""
    shapes = _shapes(core)
    for page in pages:
        header_units = shapes[page.space].header_bytes // UNIT
        with contextlib.suppress(FileNotFoundError):  # then nothing is left to be read
            core.files.overwrite(page.place.segment, page.place.start, header_units)
            core.add(bytes_written=header_units * UNIT)
    for segment in {page.place.segment for page in pages}:
        with contextlib.suppress(FileNotFoundError):
            core.files.sync(segment)
    drop_rows(core, pages)


def drop_bad(core: Core) -> None:
    """Give up the pages that were found damaged, as far as the disk allows."""
    with core.noting:
        bad = tuple(core.bad)
    if bad:
        core.settle()
    for page_id in bad:
        page = core.index.by_id(page_id)
        if page is None:
            with core.noting:
                core.bad.discard(page_id)
            continue
        try:
            erase(core, [page])
        except OSError:
            # A disk that cannot be read there often cannot be written there, either: nothing finds the page any more.
            drop_rows(core, [page])


def _erase_free_space(core: Core) -> None:
    """Make everything outside pages read as zeros, and remove segments without pages. Raises OSError."""
    for number, num_units in core.extents.segments.items():
        if not core.extents.used_units(number):
            remove_segment(core, number)
            continue
        with contextlib.suppress(FileNotFoundError):
            for start, count in core.extents.free_ranges(number):
                core.add(bytes_written=core.files.erase(number, start, count))
            core.files.reserve(number, num_units)
            core.files.sync(number)


def _name_another_owner(core: Core, page: StoredPage, owner: str) -> None:
    """Write the header of a page that stays anew: a lost index is made again from the owners that headers name."""
    others = core.index.look("SELECT owner FROM owners WHERE page = ? AND owner != ?", [page.page_id, owner])
    root, shape = core.index.spaces()[page.space]
    header = PageHeader(
        page.page_id, core.totals["bytes_written"], page.place, page.depth, page.origin, root, page.identity,
        page.parent, others[0][0], page.packed_tokens, page.packed_checksums, shape,
    )  # fmt: skip
    core.files.write(page.place.segment, header_buffer(header), page.place.start)
    core.add(bytes_written=shape.header_bytes)


def _shapes(core: Core) -> dict[int, Shape]:
    return {number: shape for number, (_, shape) in core.index.spaces().items()}
