"""The NVMe tier: pages of the KV cache in files that outlive the process.

    store = open_store(folder, cap=100 << 30)
    space = store.open_space(root, settings, num_layers, record_bytes, page_size)
    space.write(pages)                      # data, then sync, then commit
    for page in space.find(identities): ...  # committed pages only
    space.read([(page, 0, num_layers, buffer)])
    store.forget(owner)

One process writes a store, any number read it. Files are private to the user. A page that cannot be read counts as
lost, and is computed again; what went wrong is in `stats().problems`.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from octavo.storage.errors import StorageError
from octavo.storage.pagestore import opening
from octavo.storage.pagestore.aligned_io import System
from octavo.storage.pagestore.errors import AlignmentError, PageStoreBusyError, PageStoreError
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.laying import NewPage
from octavo.storage.pagestore.opening import PageStoreMissingError
from octavo.storage.pagestore.space import Space
from octavo.storage.pagestore.store import OwnerUse, Store, StoreStats, StoreUsage
from octavo.storage.pagestore.verifying import VerifyReport

__all__ = [
    "AlignmentError",
    "NewPage",
    "OwnerUse",
    "PageStoreBusyError",
    "PageStoreError",
    "PageStoreMissingError",
    "Space",
    "Store",
    "StoreStats",
    "StoreUsage",
    "StoredPage",
    "VerifyReport",
    "open_store",
]


def open_store(
    folder: Path, cap: int | None, *, write: bool = True, direct: bool | None = None, system: System | None = None
) -> Store:
    """Open the page store in `folder`, which is made if need be.

    cap: bytes that it may take on the disk, what is there already among them; None: what it takes now, and no more.
    write: if another process has the right to write, or the folder is read-only, the store can still be read, and
    `writable` is False. direct: past the page cache of the operating system (O_DIRECT), by default where that works.

    Raises PageStoreMissingError if there is nothing to read, and StorageError if the folder cannot be used.
    """
    folder, system = folder.absolute(), system or System()
    try:
        if not write:
            return Store(opening.open_reader(folder, cap, system, direct), None)
        problem = None
        try:
            opening.prepare(folder)
            lock = opening.take_lock(folder)
        except (StorageError, OSError) as error:
            problem = error
        if problem is not None:
            return _reading_only(folder, cap, system, direct, problem)
        try:
            return Store(opening.open_writer(folder, cap, system, direct), lock)
        except BaseException:
            lock.release()
            raise
    except (OSError, sqlite3.Error) as error:
        raise opening.told(folder, error) from error


def _reading_only(folder: Path, cap: int | None, system: System, direct: bool | None, problem: Exception) -> Store:
    """The store without the right to write it, or `problem` if it cannot be read, either."""
    try:
        core = opening.open_reader(folder, cap, system, direct)
    except PageStoreMissingError:
        raise opening.told(folder, problem) from problem
    core.note(str(opening.told(folder, problem)))
    return Store(core, None)
