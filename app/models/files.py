"""Small facts about files: their hashes, their size, and whether a rename has reached the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

_BLOCK = 1 << 20


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_blob_id(path: Path) -> str:
    """The id git gives the file, which the hub publishes for files too small for LFS."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def digest_of(path: Path, like: str) -> str:
    """The hash of the kind that `like` is: 40 hex digits are a git blob id, 64 a SHA-256."""
    return git_blob_id(path) if len(like) == 40 else sha256_of(path)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what has gone in the meantime counts nothing."""
    if not path.is_dir():
        return _file_size(path)
    inside = (Path(parent) / name for parent, _, names in os.walk(path) for name in names)
    return sum(map(_file_size, inside))


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def empty(out: BinaryIO) -> None:
    """Drop what a file opened for appending holds; truncating alone would leave its position behind."""
    out.seek(0)
    out.truncate()


def is_model_folder(path: Path) -> bool:
    """True for a folder with a config.json and safetensors weights."""
    try:
        return (path / "config.json").is_file() and any(path.glob("*.safetensors"))
    except OSError:
        return False


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
