"""Small facts about files: their hashes, their size, and whether a rename has reached the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

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
    if path.is_dir():
        return sum(size_of(item) for item in path.iterdir())
    try:
        return path.stat().st_size
    except OSError:
        return 0


def is_model_folder(path: Path) -> bool:
    """True for a folder with a config.json and safetensors weights."""
    return (path / "config.json").is_file() and any(path.glob("*.safetensors"))


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
