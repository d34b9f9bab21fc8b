"""What the screen remembers between runs, in the state folder: the theme, the sidebar, and what was typed."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

_PRIVATE = 0o600
_MOST_ENTRIES = 500
_LONGEST_ENTRY = 20_000  # characters; a longer input is remembered for this run only


@dataclass
class Preferences:
    """Choices made on the screen. A damaged or unwritable file costs the choices, nothing else."""

    theme: str = "octavo-dark"
    sidebar: bool = True

    @classmethod
    def load(cls, file: Path) -> Preferences:
        """The saved choices, or the defaults for what is missing or of another type."""
        chosen = cls()
        with contextlib.suppress(OSError, ValueError):
            data = json.loads(file.read_text(encoding="utf-8"))
            for item in fields(cls):
                value = data.get(item.name) if isinstance(data, dict) else None
                if type(value) is type(getattr(chosen, item.name)):
                    setattr(chosen, item.name, value)
        return chosen

    def save(self, file: Path) -> None:
        with contextlib.suppress(OSError):
            _write(file, json.dumps(asdict(self), indent=2) + "\n")


class InputHistory:
    """The inputs of this and earlier runs, oldest first; a file of one JSON string a line."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._entries: list[str] = []
        self._place = 0
        self._draft = ""

    def load(self) -> None:
        """Read the earlier runs' inputs; what was typed in the meantime stays the newest."""
        if self._file is None:
            return
        earlier: list[str] = []
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in self._file.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):
                    earlier.append(str(json.loads(line)))
        self._entries = earlier[-_MOST_ENTRIES:] + self._entries
        self._place = len(self._entries)

    def add(self, text: str) -> None:
        """Remember an input, unless it repeats the last one, and go back to the end."""
        if text.strip() and (not self._entries or self._entries[-1] != text):
            self._entries = [*self._entries, text][-_MOST_ENTRIES:]
            kept = [entry for entry in self._entries if len(entry) <= _LONGEST_ENTRY]
            if self._file is not None:
                with contextlib.suppress(OSError):
                    _write(self._file, "".join(json.dumps(entry) + "\n" for entry in kept))
        self._place = len(self._entries)

    def previous(self, current: str) -> str | None:
        """The input before the one shown, None at the oldest; `current` is kept as the draft at the end."""
        if self._place == 0:
            return None
        if self._place == len(self._entries):
            self._draft = current
        self._place -= 1
        return self._entries[self._place]

    def next(self) -> str | None:
        """The input after the one shown, and after the newest the draft; None at the draft."""
        if self._place >= len(self._entries):
            return None
        self._place += 1
        return self._draft if self._place == len(self._entries) else self._entries[self._place]


def _write(file: Path, text: str) -> None:
    """Replace the file as a whole, readable by this user alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = file.with_name(f"{file.name}.{os.getpid()}.new")
    scratch.touch(mode=_PRIVATE)
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(file)
