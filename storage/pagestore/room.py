"""Room for pages: free places first, then a new segment under the cap, then what the least valuable pages lay in."""

from __future__ import annotations

from collections.abc import Sequence

from octavo.storage.pagestore.aligned_io import UNIT
from octavo.storage.pagestore.core import Core, SpaceKey
from octavo.storage.pagestore.errors import is_full, why_not
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.records import Place

SEGMENT_UNITS = (256 << 20) // UNIT
_SEGMENTS_UNDER_CAP = 8  # at least so many under a small cap, or evicting could free nothing for another space
# Its owner's name says so; ";" follows ":".
_OF_A_DOCUMENT = "EXISTS (SELECT 1 FROM owners WHERE page = pages.id AND owner >= 'document:' AND owner < 'document;')"
_IS_PINNED = "EXISTS (SELECT 1 FROM owners JOIN pins ON pins.owner = owners.owner WHERE owners.page = pages.id)"
_INDEX_BYTES = 640  # of the index for each page, its owner among them; the token ids and checksums come on top
_FEWEST_EVICTED = 64  # one durable commit for that many pages


def make_room(core: Core, space: SpaceKey, count: int) -> tuple[list[Place], str]:
    """Up to `count` places for pages of `space`, and one sentence saying why there are not more."""
    page_units, reason = space.shape.page_units, ""
    if core.cap is not None and page_units * UNIT + _index_bytes(core, space, page_units) > core.cap:
        return [], f"A page needs more than the page store's limit of {core.cap:,} bytes."
    places = core.extents.take(space.number, count)
    try:
        while len(places) < count:
            if not core.extents.add_run(space.number, page_units):
                core.settle()
                reason = _add_segment(core, space)
                if reason and not _evict(core, space, count - len(places)):
                    break
            places += core.extents.take(space.number, count - len(places))
    except BaseException:
        for place in places:
            core.extents.release(place)
        raise
    return sorted(places, key=lambda place: (place.segment, place.start)), reason


def _add_segment(core: Core, space: SpaceKey) -> str:
    """Make a segment for pages of this space; one sentence if that cannot be."""
    num_units = _segment_units(core, space)
    if not num_units:
        return f"The page store is at its limit of {core.cap:,} bytes." if core.cap else "The page store may not grow."
    number = core.next_segment
    try:
        core.files.create(number, num_units)
    except OSError as error:
        reason = why_not("No room could be made in the page store", error)
        if not is_full(error):
            core.note(reason)
        return reason
    core.next_segment += 1
    with core.index.atomic() as connection:
        connection.execute("INSERT INTO segments VALUES (?, ?)", [number, num_units])
    core.extents.add_segment(number, num_units)
    return ""


def _segment_units(core: Core, space: SpaceKey) -> int:
    """Units of the next segment, at least a page's; 0 if the cap leaves no room."""
    cap = core.cap
    if cap is None:
        return 0
    page_units, taken = space.shape.page_units, core.extents.num_units

    def fits(num_units: int) -> bool:
        return (taken + num_units) * UNIT + _index_bytes(core, space, taken + num_units) <= cap

    wanted = max(min(SEGMENT_UNITS, _power_of_two(cap // UNIT // _SEGMENTS_UNDER_CAP)), page_units)
    # What is left under the cap is worth a segment if it is not a mere fraction of one.
    sizes = [wanted, max(wanted // 2, page_units), max(wanted // 4, page_units)]
    return next((num_units for num_units in sizes if fits(num_units)), 0)


def _index_bytes(core: Core, space: SpaceKey, num_units: int) -> int:
    """What the index and its log may grow to, if these units were full of pages of the space."""
    shape = space.shape
    each = _INDEX_BYTES + 4 * shape.page_size + 8 * (shape.num_layers + 1)
    return max(core.index.num_bytes, num_units // shape.page_units * each) + core.index.longest_log


def _power_of_two(number: int) -> int:
    """The largest power of two that is not larger, or 0."""
    return 1 << number.bit_length() - 1 if number > 0 else 0


def _evict(core: Core, space: SpaceKey, count: int) -> int:
    """Drop the least valuable pages until about `count` of this space fit; returns how many went.

    Oldest last use first, and the tail of a chain before its head; documents' pages last, and pinned ones never. A page
    of another space frees nothing by itself: the whole run that it lies in goes, whose pages were written together.
    """
    with core.index.atomic() as connection:
        core.write_uses(connection)
    held = core.leases.held()
    total = core.index.look("SELECT count(*) FROM pages")[0][0]
    count = max(count, min(_FEWEST_EVICTED, total // 16))
    oldest = _least_valuable(core, f"NOT {_IS_PINNED}", count + len(held))
    victims: list[StoredPage] = []
    for page in oldest:
        if page.page_id in held:
            continue
        if page.space != space.number:
            where, place = "segment = ? AND run_start = ?", [page.place.segment, page.place.run_start]
            if core.index.pages(f"{where} AND {_IS_PINNED} LIMIT 1", place):
                continue
            run = core.index.pages(where, place)
            victims += [other for other in run if other.page_id not in held and other not in victims]
            break
        victims.append(page)
        if len(victims) >= count:
            break
    drop_rows(core, victims)
    core.add(evicted=len(victims))
    _remove_empty_segments(core, smaller_than=space.shape.page_units)
    return len(victims)


def _least_valuable(core: Core, where: str, most: int = -1) -> list[StoredPage]:
    """Pages in the order in which they are given up: those of documents, which were kept on purpose, last."""
    order = "ORDER BY last_use, depth DESC LIMIT ?"
    pages = core.index.pages(f"{where} AND NOT {_OF_A_DOCUMENT} {order}", [most])
    left = most - len(pages) if most >= 0 else most
    return pages + core.index.pages(f"{where} AND {_OF_A_DOCUMENT} {order}", [left]) if left else pages


def drop_rows(core: Core, pages: Sequence[StoredPage]) -> None:
    """Take pages out of the index, for good, and then give their places back."""
    if not pages:
        return
    with core.index.atomic(durable=True) as connection:
        core.index.delete(connection, [page.page_id for page in pages])
        core.write_counters(connection)
    core.leases.wait(page.page_id for page in pages)
    for page in pages:
        core.extents.release(page.place)
    with core.noting:
        core.bad.difference_update(page.page_id for page in pages)


def remove_segment(core: Core, number: int) -> None:
    """Delete a segment that holds no page any more. Raises OSError, with the segment still there then.

    The file goes first: one that the index did not know would be searched for pages when the store is opened.
    """
    core.files.remove(number)
    core.extents.remove_segment(number)
    with core.index.atomic() as connection:
        connection.execute("DELETE FROM segments WHERE number = ?", [number])


def _remove_empty_segments(core: Core, smaller_than: int) -> None:
    for number, num_units in core.extents.segments.items():
        if num_units < smaller_than and not core.extents.used_units(number):
            try:
                remove_segment(core, number)
            except OSError as error:
                core.note(why_not(f"Segment {number} of the page store could not be removed", error))


def enforce_cap(core: Core) -> None:
    """Bring what is on the disk below the cap: drop least valuable pages until whole segments can go.

    Raises OSError and sqlite3.Error.
    """
    from octavo.storage.pagestore.compaction import compact

    if core.cap is None or core.num_bytes <= core.cap:
        return
    core.settle()
    core.index.checkpoint()
    while core.num_bytes > core.cap and core.extents.segments:
        compact(core, until=lambda: core.num_bytes <= (core.cap or 0))
        excess = core.num_bytes - core.cap
        if excess > 0 and not _evict_bytes(core, excess):
            core.note(f"The page store could not be brought below its limit of {core.cap:,} bytes.")
            return


def _evict_bytes(core: Core, num_bytes: int) -> int:
    """Drop least valuable pages of so many bytes in all, pinned ones last; returns how many went."""
    held, left, victims = core.leases.held(), num_bytes, []
    sizes = {number: shape.page_bytes for number, (_, shape) in core.index.spaces().items()}
    for page in [*_least_valuable(core, f"NOT {_IS_PINNED}"), *_least_valuable(core, _IS_PINNED)]:
        if left <= 0:
            break
        if page.page_id not in held:
            victims.append(page)
            left -= sizes[page.space]
    drop_rows(core, victims)
    core.add(evicted=len(victims))
    return len(victims)
