"""What Octavo remembers about models: the chosen default, what it downloaded, local paths, and file hashes.

One small JSON file, replaced atomically and changed only under a lock. It holds no model data, so deleting
it loses the choice of a default, the names of local paths and the record of which files may be removed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.app.errors import AppError
from octavo.app.models.files import sha256_of, sync_folder
from octavo.app.models.locks import file_lock
from octavo.storage.paths import create_private

_VERSION = 1


class _NotWritableError(AppError):
    """The registry cannot be changed."""


@dataclass(frozen=True)
class DownloadRecord:
    """A file or folder that Octavo downloaded, and from where."""

    path: Path
    source: str


class Registry:
    """The registry file at `path`; it is read at each question, so two processes see each other's changes.

    Every method raises AppError if the file is not readable JSON of this version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def default(self) -> str | None:
        """The model chosen with `octavo models use`: a name or an absolute path."""
        value = self._read()["default"]
        return None if value is None else str(value)

    def set_default(self, name: str | None) -> None:
        self._change(lambda data: data.update(default=name))

    @property
    def local(self) -> dict[str, Path]:
        """Name -> absolute path of each model registered where it lies."""
        return {name: Path(path) for name, path in self._read()["local"].items()}

    def add_local(self, name: str, path: Path) -> None:
        self._change(lambda data: data["local"].update({name: str(path)}))

    @property
    def downloads(self) -> dict[str, DownloadRecord]:
        """Name -> what Octavo downloaded under it. Only these files may be removed."""
        items = self._read()["downloads"].items()
        return {name: DownloadRecord(Path(item["path"]), item["source"]) for name, item in items}

    def add_download(self, name: str, record: DownloadRecord) -> None:
        item = {"path": str(record.path), "source": record.source}
        self._change(lambda data: data["downloads"].update({name: item}))

    def forget(self, name: str) -> None:
        """Drop `name` and the hash of its file; the default too, if it was this model."""

        def drop(data: dict[str, Any]) -> None:
            item = data["downloads"].pop(name, None)
            path = item["path"] if item else data["local"].pop(name, None)
            data["hashes"].pop(path, None)
            if data["default"] in (name, path):
                data["default"] = None

        self._change(drop)

    def known_sha256(self, path: Path) -> str | None:
        """The file's SHA-256 if it was hashed before and has not changed since (same size and mtime)."""
        return self._lookup(self._read(), path)

    def sha256(self, path: Path) -> str:
        """The file's SHA-256, from memory or by reading it."""
        known = self.known_sha256(path)
        if known is not None:
            return known
        digest = sha256_of(path)
        with contextlib.suppress(_NotWritableError):  # a shared folder may be read-only; then it is read again
            self.remember_sha256(path, digest)
        return digest

    def remember_sha256(self, path: Path, digest: str) -> None:
        stat = path.stat()
        record = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": digest}
        self._change(lambda data: data["hashes"].update({str(path): record}))

    @staticmethod
    def _lookup(data: dict[str, Any], path: Path) -> str | None:
        record = data["hashes"].get(str(path))
        if record is None or not path.exists():
            return None
        stat = path.stat()
        if (record["size"], record["mtime_ns"]) != (stat.st_size, stat.st_mtime_ns):
            return None
        return str(record["sha256"])

    def _read(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"version": _VERSION, "default": None}
        empty.update(local={}, downloads={}, hashes={})
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return empty
        except (OSError, ValueError) as error:
            raise AppError(
                f"{self.path} cannot be read ({error}); delete it: only the chosen default and the list of "
                "downloaded models are lost"
            ) from None
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            raise AppError(f"{self.path} was written by another version of Octavo; delete or move it")
        return {**empty, **data}

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Read, change and replace the file while no other process does."""
        try:
            create_private(self.path.parent)
            with file_lock(self.path, lambda text: None):
                data = self._read()
                change(data)
                self._replace(data)
        except OSError as error:
            reason = error.strerror or error
            raise _NotWritableError(f"{self.path} cannot be written ({reason}).") from None

    def _replace(self, data: dict[str, Any]) -> None:
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        with temporary.open("w", encoding="utf-8") as out:
            json.dump(data, out, indent=2, sort_keys=True)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self.path)
        sync_folder(self.path.parent)
