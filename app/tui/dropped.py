"""Files and folders named by a person: dropped onto the terminal, which comes as a paste, or behind a command."""

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


def named_paths(text: str) -> list[Path]:
    """The files and folders that a person named behind a command, relative ones too, with or without quotes.

    What is not there is among them as it was written, so that it can be said; quotes are no part of it.
    """
    text = text.strip()
    whole = _named(text)
    if _exists(whole):
        return [whole]
    try:
        paths = [_named(word) for word in shlex.split(text)]
    except ValueError:
        paths = []
    if any(map(_exists, paths)):
        return paths
    return paths if len(paths) == 1 else [whole]


def _named(word: str) -> Path:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return Path(os.path.expanduser(word))  # noqa: PTH111 - Path.expanduser raises where there is no such user


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _path(word: str) -> Path | None:
    path = _named(word)
    return path if path.is_absolute() and _exists(path) and os.access(path, os.R_OK) else None
