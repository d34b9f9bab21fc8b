"""Reading and writing files past the page cache: whole units of 4 KiB, into aligned memory, or loudly not at all.

`System` is the seam to the operating system: tests put one in whose calls fail, come up short or flip bits.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from octavo.storage.pagestore.errors import AlignmentError

UNIT = 4096  # bytes: a multiple of every common sector size, and the size of a memory page
MEMORY_UNIT = 512  # bytes that memory must be aligned to, where the disk asks for no more
_HUGE = 2 << 20
_MAP = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory, mmap's default, gets no huge pages
_KEEP_SIZE_AND_PUNCH = 0x03  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def units(num_bytes: int) -> int:
    """Units that hold `num_bytes`."""
    return -(-num_bytes // UNIT)


class AlignedBuffer:
    """Memory for transfers past the page cache, at the start of a memory page; `array` is uint8 [num_bytes].

    A large one asks for huge memory pages: a disk is handed a few long pieces then, not hundreds of short ones.
    """

    def __init__(self, num_bytes: int) -> None:
        size = units(num_bytes) * UNIT
        if size < _HUGE // 4:
            self.view = memoryview(mmap.mmap(-1, size, flags=_MAP))
        else:
            memory = mmap.mmap(-1, (-(-size // _HUGE) + 1) * _HUGE, flags=_MAP)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):
                    memory.madvise(mmap.MADV_HUGEPAGE)
            start = -np.frombuffer(memory, dtype=np.uint8).ctypes.data % _HUGE
            self.view = memoryview(memory)[start : start + size]
        self.array: NDArray[np.uint8] = np.frombuffer(self.view, dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.view)


def address(buffer: memoryview | bytes | bytearray) -> int:
    """Where the buffer begins in memory."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    except (TypeError, ValueError):  # read-only, or empty
        return np.frombuffer(buffer, dtype=np.uint8).ctypes.data if len(buffer) else 0


class ThreadBuffers(threading.local):
    """One buffer for each thread, which grows to the largest size asked for."""

    def __init__(self) -> None:
        self._buffer = AlignedBuffer(UNIT)

    def at_least(self, num_bytes: int) -> AlignedBuffer:
        if len(self._buffer) < num_bytes:
            self._buffer = AlignedBuffer(num_bytes)
        return self._buffer


class System:
    """The calls of the operating system that the store makes on its files, and nothing else."""

    def open(self, path: Path, *, write: bool, create: bool = False, direct: bool = False) -> int:
        """A descriptor. `create` makes a private file that must not be there yet."""
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | (_DIRECT if direct else 0)
        return os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def preadv(self, descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        return os.preadv(descriptor, parts, offset)

    def pwritev(self, descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        return os.pwritev(descriptor, parts, offset)

    def sync(self, descriptor: int) -> None:
        """Data, and what is needed to read it again, is on the disk afterwards."""
        getattr(os, "fdatasync", os.fsync)(descriptor)

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def allocate(self, descriptor: int, num_bytes: int) -> None:
        """Make the file `num_bytes` long, with space reserved for all of it where the platform can."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, num_bytes)
        else:
            os.truncate(descriptor, num_bytes)

    def punch(self, descriptor: int, offset: int, num_bytes: int) -> bool:
        """Give the range back to the file system, so that it reads as zeros; False where that cannot be done."""
        call = getattr(_libc(), "fallocate64", None)
        if call is None:
            return False
        mode, start, length = ctypes.c_int(_KEEP_SIZE_AND_PUNCH), ctypes.c_int64(offset), ctypes.c_int64(num_bytes)
        if call(descriptor, mode, start, length) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return False
        raise OSError(code, os.strerror(code))

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def read_units(system: System, descriptor: int, parts: Sequence[memoryview], offset: int) -> None:
    """Fill `parts`, one after the other, from `offset`; a read that came up short is continued.

    Raises AlignmentError unless all is whole units, and OSError, also for a file that ends before the range does.
    """
    _check_alignment(parts, offset)
    num_bytes, done = sum(map(len, parts)), 0
    while done < num_bytes:
        got = system.preadv(descriptor, _after(parts, done), offset + done)
        # What lies past the last whole unit is read again: the next read must be aligned, too.
        whole = got // UNIT * UNIT
        if whole <= 0:
            raise OSError(errno.EIO, "the file ends too early, or a read stopped within a sector")
        done += whole


def write_units(system: System, descriptor: int, parts: Sequence[memoryview], offset: int) -> None:
    """Write `parts`, one after the other, at `offset`; a write that came up short is continued.

    Raises as `read_units` does.
    """
    _check_alignment(parts, offset)
    num_bytes, done = sum(map(len, parts)), 0
    while done < num_bytes:
        whole = system.pwritev(descriptor, _after(parts, done), offset + done) // UNIT * UNIT
        if whole <= 0:
            raise OSError(errno.EIO, "a write stopped within a sector")
        done += whole


def _after(parts: Sequence[memoryview], done: int) -> list[memoryview]:
    """What is left of `parts` after their first `done` bytes."""
    left: list[memoryview] = []
    for part in parts:
        if done < len(part):
            left.append(part[done:] if done else part)
        done = max(done - len(part), 0)
    return left


def _check_alignment(parts: Sequence[memoryview], offset: int) -> None:
    for part in parts:
        start = address(part)
        if offset % UNIT or len(part) % UNIT or start % MEMORY_UNIT:
            raise AlignmentError(
                f"A transfer of {len(part)} bytes between memory at {start:#x} and offset {offset} of a file is not "
                f"aligned to {UNIT} bytes."
            )


def _aligned_only_to(unit: int) -> memoryview:
    """A unit of memory that is aligned to `unit` bytes, and to no more."""
    return AlignedBuffer(2 * UNIT).view[unit % UNIT :][:UNIT]


def direct_unit(attempt: Callable[[memoryview], None]) -> int:
    """Bytes that memory must be aligned to for transfers past the page cache, 0 if none get through.

    `attempt` makes transfers with the memory it is given; it raises OSError if they fail.
    """
    for unit in (MEMORY_UNIT, UNIT):
        with contextlib.suppress(OSError):
            attempt(_aligned_only_to(unit))
            return unit
    return 0


def direct_works(system: System, folder: Path) -> int:
    """`direct_unit` of files in `folder`, tried with a small one."""

    def attempt(memory: memoryview) -> None:
        descriptor = system.open(path, write=True, create=True, direct=True)
        try:
            write_units(system, descriptor, [memory], 0)
            read_units(system, descriptor, [memory], 0)
        finally:
            system.close(descriptor)
            system.unlink(path)

    path = folder / f"probe-{os.getpid()}"
    return direct_unit(attempt) if _DIRECT else 0
