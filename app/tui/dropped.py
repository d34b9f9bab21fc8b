"""A file or folder dropped onto the terminal, which comes as a paste of its path."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LONGEST = 8_000  # characters
_MOST = 50


def dropped_paths(text: str) -> list[Path]:
    """The files and folders that a paste names, all of them absolute and there; empty for any other text.

    Terminals quote or escape spaces, or send file:// addresses; several are separated by spaces or lines.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST or (text[0] not in "/~'\"\\f" and text[1:3] != ":\\"):
        return []
    whole = _path(text)
    if whole is not None:
        return [whole]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    paths = [_path(word) for word in words[: _MOST + 1]]
    return [path for path in paths if path is not None] if len(paths) <= _MOST and None not in paths else []


def _path(word: str) -> Path | None:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    path = Path(word).expanduser() if word.startswith("~") else Path(word)
    try:
        return path if path.is_absolute() and path.exists() and os.access(path, os.R_OK) else None
    except (OSError, ValueError, RuntimeError):
        return None
