"""The files that hold the pages: one number each, never given twice, of a size fixed when it is made."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from octavo.storage.pagestore.aligned_io import (
    MEMORY_UNIT,
    UNIT,
    AlignedBuffer,
    System,
    direct_unit,
    read_units,
    write_units,
)

_NAME = re.compile(r"([0-9]{8,})\.pages")
_ZEROS = 1 << 20


class SegmentFiles:
    """The segments in `folder`. Any thread may read; one at a time may write, make or remove.

    Memory is aligned to `memory_unit` bytes in every transfer; 0 for `direct_unit` means through the page cache.
    """

    def __init__(self, folder: Path, system: System, *, write: bool, direct_unit: int) -> None:
        self.folder = folder
        self.direct = direct_unit > 0
        self.memory_unit = direct_unit or MEMORY_UNIT
        self._system = system
        self._write = write
        self._descriptors: dict[int, int] = {}
        self._opening = threading.Lock()

    def found(self) -> dict[int, int]:
        """Bytes of each segment that lies in the folder."""
        sizes: dict[int, int] = {}
        for path in self.folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name is not None:
                with contextlib.suppress(FileNotFoundError):
                    sizes[int(name[1])] = path.stat().st_size
        return sizes

    def read_directly(self) -> None:
        """From now on read past the page cache, if a segment that is there, or none, shows that it works."""
        segments = sorted(self.found())

        def attempt(memory: memoryview) -> None:
            descriptor = self._system.open(self._path(segments[0]), write=False, direct=True)
            try:
                read_units(self._system, descriptor, [memory], 0)
            finally:
                self._system.close(descriptor)

        unit = direct_unit(attempt) if segments else UNIT
        self.direct, self.memory_unit = unit > 0, unit or MEMORY_UNIT

    def create(self, number: int, num_units: int) -> None:
        """Make a segment with its space reserved. Raises OSError, and leaves nothing behind then."""
        path = self._path(number)
        descriptor = self._system.open(path, write=True, create=True, direct=self.direct)
        try:
            self._system.allocate(descriptor, num_units * UNIT)
            # The file itself is synced with the first pages in it.
            self._system.sync_folder(self.folder)
        except BaseException:
            self._system.close(descriptor)
            with contextlib.suppress(OSError):
                self._system.unlink(path)
            raise
        with self._opening:
            self._descriptors[number] = descriptor

    def remove(self, number: int) -> None:
        """Delete a segment; nobody may be reading it. Raises OSError."""
        with self._opening:
            descriptor = self._descriptors.pop(number, None)
        if descriptor is not None:
            self._system.close(descriptor)
        self._system.unlink(self._path(number))
        self._system.sync_folder(self.folder)

    def read(self, number: int, buffer: memoryview, start: int) -> None:
        """Fill `buffer` (whole units) from unit `start`. Raises OSError."""
        read_units(self._system, self._descriptor(number), [buffer], start * UNIT)

    def read_scattered(self, number: int, parts: Sequence[memoryview], start: int) -> None:
        """Fill `parts` (each whole units), one after the other, from unit `start`. Raises OSError."""
        read_units(self._system, self._descriptor(number), parts, start * UNIT)

    def write(self, number: int, buffer: memoryview, start: int) -> None:
        """Write `buffer` (whole units) at unit `start`. Raises OSError."""
        write_units(self._system, self._descriptor(number), [buffer], start * UNIT)

    def write_gathered(self, number: int, parts: Sequence[memoryview], start: int) -> None:
        """Write `parts` (each whole units), one after the other, at unit `start`. Raises OSError."""
        write_units(self._system, self._descriptor(number), parts, start * UNIT)

    def sync(self, number: int) -> None:
        """What was written to the segment is on the disk afterwards. Raises OSError."""
        self._system.sync(self._descriptor(number))

    def sync_folder(self, folder: Path) -> None:
        """Which files are in this folder, ours or one below it, is on the disk afterwards. Raises OSError."""
        self._system.sync_folder(folder)

    def erase(self, number: int, start: int, num_units: int) -> int:
        """Make the range read as zeros; returns the bytes written for that. Raises OSError.

        The space goes back to the file system where it can be given back, and is overwritten elsewhere.
        """
        descriptor = self._descriptor(number)
        if self._system.punch(descriptor, start * UNIT, num_units * UNIT):
            return 0
        self.overwrite(number, start, num_units)
        return num_units * UNIT

    def overwrite(self, number: int, start: int, num_units: int) -> None:
        """Write zeros over the range. Raises OSError."""
        zeros = AlignedBuffer(min(_ZEROS, num_units * UNIT)).view
        step = len(zeros) // UNIT
        for begin in range(start, start + num_units, step):
            count = min(step, start + num_units - begin)
            self.write(number, zeros[: count * UNIT], begin)

    def reserve(self, number: int, num_units: int) -> None:
        """Have space for all of a segment again after parts were erased, if the disk has it."""
        with contextlib.suppress(OSError):
            self._system.allocate(self._descriptor(number), num_units * UNIT)

    def close(self) -> None:
        with self._opening:
            descriptors, self._descriptors = self._descriptors, {}
        for descriptor in descriptors.values():
            self._system.close(descriptor)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.pages"

    def _descriptor(self, number: int) -> int:
        with self._opening:
            if number not in self._descriptors:
                path = self._path(number)
                self._descriptors[number] = self._system.open(path, write=self._write, direct=self.direct)
            return self._descriptors[number]
