"""What is pinned, where it outlives the index: an empty file for each owner, in a folder beside the segments.

The files are what counts. The index has a copy, so that choosing what to evict is one query.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

from octavo.storage.pagestore.core import Core

FOLDER = "pins"
_PREFIX = "pin-"  # "." is an owner, too


def pin(core: Core, owner: str) -> None:
    """Raises OSError, sqlite3.Error."""
    file = _file(core, owner)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.touch(mode=0o600)
    core.files.sync_folder(file.parent)
    with core.index.atomic(durable=True) as connection:
        connection.execute("INSERT OR IGNORE INTO pins VALUES (?)", [owner])


def unpin(core: Core, owner: str) -> None:
    """Raises OSError, sqlite3.Error."""
    file = _file(core, owner)
    if file.exists():
        file.unlink()
        core.files.sync_folder(file.parent)
    with core.index.atomic(durable=True) as connection:
        connection.execute("DELETE FROM pins WHERE owner = ?", [owner])


def unpin_all(core: Core) -> None:
    """Raises OSError, sqlite3.Error."""
    for owner in _pinned(core):
        unpin(core, owner)


def restore(core: Core) -> bool:
    """Bring the index in line with the files; False if there were none yet, and what the index has was laid down.

    Raises OSError, sqlite3.Error.
    """
    folder, known = core.folder / FOLDER, core.index.pinned()
    if not folder.is_dir():
        staged = folder.with_suffix(".new")  # the folder counts as soon as it is there, so it comes whole
        staged.mkdir(mode=0o700, exist_ok=True)
        for owner in known:
            (staged / _name(owner)).touch(mode=0o600)
        core.files.sync_folder(staged)
        staged.rename(folder)
        core.files.sync_folder(core.folder)
        return False
    pinned = _pinned(core)
    if pinned != known:
        with core.index.atomic(durable=True) as connection:
            connection.execute("DELETE FROM pins")
            connection.executemany("INSERT INTO pins VALUES (?)", [(owner,) for owner in pinned])
    return True


def _pinned(core: Core) -> set[str]:
    files = (core.folder / FOLDER).glob(f"{_PREFIX}*")
    return {unquote(file.name.removeprefix(_PREFIX)) for file in files}


def _file(core: Core, owner: str) -> Path:
    return core.folder / FOLDER / _name(owner)


def _name(owner: str) -> str:
    return f"{_PREFIX}{quote(owner, safe='')}"
