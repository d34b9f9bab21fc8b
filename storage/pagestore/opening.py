"""Opening a page store: the right to write, the index, and the map of what lies where."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from octavo.storage.errors import StorageError
from octavo.storage.lock import DatabaseBusyError, WriterLock
from octavo.storage.pagestore import pins
from octavo.storage.pagestore.aligned_io import UNIT, System, direct_works
from octavo.storage.pagestore.core import INDEX_FILE, Core
from octavo.storage.pagestore.erasing import finish_forgetting
from octavo.storage.pagestore.errors import PageStoreBusyError, PageStoreError
from octavo.storage.pagestore.index import Index
from octavo.storage.pagestore.indexfile import delete_files
from octavo.storage.pagestore.room import enforce_cap, remove_segment
from octavo.storage.pagestore.scanning import restore_segments
from octavo.storage.pagestore.segments import SegmentFiles
from octavo.storage.paths import create_private

LOCK_FILE = "store.lock"


class PageStoreMissingError(PageStoreError):
    """There is nothing to read yet: whoever opens the store for writing makes it."""


def take_lock(folder: Path) -> WriterLock:
    """The right to write the store in `folder`. Raises PageStoreBusyError if another process has it, StorageError."""
    try:
        return WriterLock(folder / LOCK_FILE)
    except DatabaseBusyError as error:
        raise PageStoreBusyError(f"Another process writes the page store {folder}; this one only reads it.") from error


def open_writer(folder: Path, cap: int | None, system: System, direct: bool | None) -> Core:
    """The store in `folder`, which is made if need be, as its last writer left it. Raises StorageError, OSError."""
    unit = direct_works(system, folder) if direct is not False else 0
    if direct and not unit:
        raise PageStoreError(f"{folder} cannot be written past the page cache (O_DIRECT); choose another disk.")
    files = SegmentFiles(folder, system, write=True, direct_unit=unit)
    found = files.found()
    path = folder / INDEX_FILE
    lost = "was lost" if found and (not path.exists() or not path.stat().st_size) else ""
    try:
        index = Index(path, write=True, longest_log=_longest_log(cap))
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        lost = "was damaged"
        delete_files(path)
        index = Index(path, write=True, longest_log=_longest_log(cap))
    core = Core(folder, cap, files, index, writable=True)
    try:
        knows_pins = _load(core, found)
        if lost:
            num_pages = index.look("SELECT count(*) FROM pages")[0][0]
            unknown = "" if knows_pins else " What was pinned in it is not known any more; pin it again."
            core.note(f"The index of the page store {lost}; {num_pages:,} pages were found again.{unknown}")
        for (owner,) in index.look("SELECT owner FROM forgetting"):
            finish_forgetting(core, owner)
        enforce_cap(core)
    except BaseException:
        index.close()
        files.close()
        raise
    return core


def open_reader(folder: Path, cap: int | None, system: System, direct: bool | None) -> Core:
    """The store in `folder`, to read from only. Raises StorageError, OSError."""
    path = folder / INDEX_FILE
    if not path.exists():
        raise PageStoreMissingError(f"There is no page store in {folder} yet.")
    files = SegmentFiles(folder, system, write=False, direct_unit=0)
    if direct is not False:
        files.read_directly()
    index = Index(path, write=False)
    core = Core(folder, cap, files, index, writable=False)
    core.totals.update(index.counters())
    return core


def rebuild(core: Core) -> None:
    """Throw the damaged index of an open store away and make it again. Raises OSError, sqlite3.Error, StorageError."""
    core.index.close()
    delete_files(core.index.path)
    core.index = Index(core.index.path, write=True, longest_log=_longest_log(core.cap))
    core.index_is_damaged = False
    for number in core.extents.segments:
        core.extents.remove_segment(number)
    _load(core, core.files.found())
    core.note("The index of the page store was damaged while it was open, and was made again.")


def _load(core: Core, found: dict[int, int]) -> bool:
    """Fill the map from the index, and bring the index in line with the segments that are there.

    False if only the index knows what is pinned.
    """
    index = core.index
    core.totals.update(index.counters())
    listed = dict(index.look("SELECT number, units FROM segments"))
    missing = [number for number in listed if number not in found]
    with index.atomic() as connection:
        for number in missing:
            if index.look("SELECT 1 FROM pages WHERE segment = ? LIMIT 1", [number]):
                core.note(f"Segment {number} of the page store is missing; its pages are computed again.")
            connection.execute("DELETE FROM segments WHERE number = ?", [number])
    core.next_segment = max([0, *listed, *found]) + 1
    for number in sorted(listed.keys() & found.keys()):
        core.extents.add_segment(number, listed[number])
        if found[number] != listed[number] * UNIT:
            core.files.reserve(number, listed[number])
    sizes = {number: shape.page_units for number, (_, shape) in index.spaces().items()}
    homeless = [
        page.page_id
        for page in index.pages()
        if page.space not in sizes or not core.extents.restore(page.place, page.space, sizes[page.space])
    ]
    with index.atomic() as connection:
        index.delete(connection, homeless)
    unlisted = {number: size // UNIT for number, size in sorted(found.items()) if number not in listed}
    restore_segments(core, [(number, num_units) for number, num_units in unlisted.items() if num_units])
    for number in unlisted:
        # Whoever made the file did not come to use it.
        if not unlisted[number]:
            core.files.remove(number)
        elif not core.extents.used_units(number):
            remove_segment(core, number)
    core.last_epoch = index.look("SELECT coalesce(max(id), 0) FROM pages")[0][0]
    return pins.restore(core)


def _longest_log(cap: int | None) -> int:
    """Bytes of the index's log that are little beside the cap."""
    return 16 << 20 if cap is None else max(min(16 << 20, cap // 64), 1 << 17)


def told(folder: Path, error: Exception) -> StorageError:
    """What went wrong with the store in `folder`, as StorageError."""
    if isinstance(error, StorageError):
        return error
    reason = error.strerror or error if isinstance(error, OSError) else error
    return PageStoreError(f"The page store {folder} cannot be used: {reason}.")


def prepare(folder: Path) -> None:
    """Make the folder, private to the user. Raises StorageError."""
    create_private(folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
