"""A file of finished measurements, so that a long run goes on where it was ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.app.errors import AppError

Rows = list[dict[str, Any]]

_START = '{"made_with": '


class FinishedRows:
    """The rows of every measurement that came to its end, one line of JSON each, known by what it was made with.

    A last line that was cut short counts as not written. Raises AppError for a file that holds anything else, which is
    left as it is, and for one that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Rows] = {}
        try:
            content = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise AppError(f"{path} cannot be read: {error.strerror or error}.") from error
        lines = content.splitlines(keepends=True)
        cut = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        self._size = len(content) - len(cut)
        try:
            if cut[: len(_START)] != _START.encode()[: len(cut)]:
                raise ValueError
            for line in lines:
                document = json.loads(line)
                self._rows[_key(document["made_with"])] = list(document["rows"])
        except (ValueError, TypeError, KeyError):
            raise AppError(f"{path} is not a file of needle rows; name another one.") from None

    def find(self, made_with: Mapping[str, Any]) -> Rows | None:
        """What was measured with exactly this, None if it was not."""
        return self._rows.get(_key(made_with))

    def add(self, made_with: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> None:
        """Write the rows down before anything else is measured. Raises AppError if that fails."""
        line = json.dumps({"made_with": dict(made_with), "rows": list(rows)}) + "\n"
        assert line.startswith(_START)
        try:
            with self._path.open("ab") as file:
                file.truncate(self._size)
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
                self._size = file.tell()
        except OSError as error:
            raise AppError(f"{self._path} cannot be written: {error.strerror or error}.") from error
        self._rows[_key(made_with)] = list(rows)


def _key(made_with: Mapping[str, Any]) -> str:
    return json.dumps(made_with, sort_keys=True)
