"""The file of the page store's index: what it looks like, how it is opened, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from octavo.storage.connection import beside

VERSION = 2  # goes up with that of records.py, too: places depend on how large a page is
SUFFIXES = ("", "-wal", "-shm")
PAGE_BYTES = 4096
# Came after the version, and is made where it is missing: an index is not made again for want of it.
PINS = "CREATE TABLE IF NOT EXISTS pins (owner TEXT PRIMARY KEY) WITHOUT ROWID"
SCHEMA = (
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE spaces (
        id INTEGER PRIMARY KEY, root BLOB NOT NULL, settings TEXT NOT NULL, num_layers INTEGER NOT NULL,
        record_bytes INTEGER NOT NULL, page_size INTEGER NOT NULL,
        UNIQUE (root, settings, num_layers, record_bytes, page_size)
    )""",
    "CREATE TABLE segments (number INTEGER PRIMARY KEY, units INTEGER NOT NULL)",
    """CREATE TABLE pages (
        id INTEGER PRIMARY KEY, space INTEGER NOT NULL, identity BLOB NOT NULL, parent BLOB NOT NULL,
        tokens BLOB NOT NULL, checksums BLOB NOT NULL, origin INTEGER NOT NULL, depth INTEGER NOT NULL,
        segment INTEGER NOT NULL, start INTEGER NOT NULL, run_start INTEGER NOT NULL, run_slots INTEGER NOT NULL,
        last_use INTEGER NOT NULL, UNIQUE (space, identity), UNIQUE (segment, start)
    )""",
    "CREATE INDEX pages_by_value ON pages(last_use, depth DESC)",
    # Without an index by owner: forgetting is rare and may read the whole table, every page that is written would pay.
    "CREATE TABLE owners (page INTEGER, owner TEXT, PRIMARY KEY (page, owner)) WITHOUT ROWID",
    "CREATE TABLE forgetting (owner TEXT PRIMARY KEY) WITHOUT ROWID",
    f"PRAGMA user_version = {VERSION}",
)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is not what was written, rather than locked, full or out of reach."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def delete_files(path: Path) -> None:
    """Remove the index at `path`. Raises OSError."""
    for suffix in SUFFIXES:
        beside(path, suffix).unlink(missing_ok=True)


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection for one thread at a time, without transactions of its own making. Raises sqlite3.Error."""
    if write and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    uri = f"{path.as_uri()}?mode={'rw' if write else 'ro'}"
    # Readers share the log through a file in the folder; where none can be made and there is no log, nothing changes.
    if not os.access(path.parent, os.W_OK) and not beside(path, "-wal").exists():
        uri += "&immutable=1"
    connection = sqlite3.connect(uri, uri=True, timeout=5.0, check_same_thread=False, isolation_level=None)
    try:
        pragmas = ["secure_delete = ON", "synchronous = NORMAL", "temp_store = MEMORY"]
        if write:
            pragmas += [f"page_size = {PAGE_BYTES}", "journal_mode = WAL", "journal_size_limit = 0"]
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def version(connection: sqlite3.Connection) -> int:
    """The version of the schema; 0 for a file without one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
