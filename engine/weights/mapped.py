"""Memory maps of weight files."""

import mmap
import sys
from pathlib import Path
from typing import BinaryIO

from octavo.engine.errors import ModelFileError


def map_file(path: Path) -> mmap.mmap:
    """Map a whole file into memory, privately: nothing written to the map reaches the file.

    Private and writable rather than read-only, because torch warns of tensors over read-only memory.
    Pages are read on first touch and stay shared with the system's file cache.
    Raises ModelFileError if the file is missing, unreadable, empty, or a folder.
    """
    try:
        if path.is_dir():
            raise ModelFileError(f"{path} is a folder, not a model file")
        with path.open("rb") as file:
            return _map(file)
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist") from None
    except ValueError:
        raise ModelFileError(f"{path} is empty: fetch it again") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error


def _map(file: BinaryIO) -> mmap.mmap:
    if sys.platform != "linux":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    # Linux refuses a private map larger than all memory, in case every page is written; none will be.
    # Python names the flag from 3.13 on.
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
    flags = mmap.MAP_PRIVATE | no_reserve
    return mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
