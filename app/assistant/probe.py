"""What the operating system says of this process and of the machine. Bytes."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PSS_S = 10.0  # between two looks at the proportional set size, which costs some milliseconds
_RAM_S = 1.0
_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_DISK_S = 2.0


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """`rss` is what of this process lies in RAM, `shared` the part of it that is files, mapped weights among them;
    `pss` counts pages shared with other processes by their share, 0 until it is known. `available` is what programs may
    still take of `ram`. `disk_free` of `disk` is the disk of the page store.
    """

    rss: int
    shared: int
    pss: int
    peak_rss: int
    ram: int
    available: int
    disk: int
    disk_free: int


class Probe:
    """Measures this process. `measure` costs well under a millisecond; `measure_pss` is for a thread of its own."""

    def __init__(self, folder: Path) -> None:
        """`folder` lies, or will lie, on the page store's disk."""
        import psutil

        self._process = psutil.Process()
        self._folder = folder
        self._pss = 0
        self._pss_at = -PSS_S
        self._ram = (0, 0)
        self._ram_at = -_RAM_S
        self._disk = (0, 0)
        self._disk_at = -_DISK_S

    @property
    def wants_pss(self) -> bool:
        """Whether the last look at it is too old."""
        return time.monotonic() - self._pss_at >= PSS_S

    def measure_pss(self) -> None:
        """Look again; where the system has no such figure it stays 0."""
        import psutil

        self._pss_at = time.monotonic()
        with contextlib.suppress(psutil.Error, OSError):
            self._pss = int(getattr(self._process.memory_full_info(), "pss", 0))

    def measure(self) -> SystemFigures:
        """The figures as they are now; those of other programs may be a second old, those of the disk two."""
        from octavo.engine.hardware import measure_ram

        now = time.monotonic()
        rss, shared = self._resident()
        if now - self._ram_at >= _RAM_S:
            ram, self._ram_at = measure_ram(), now
            self._ram = ram.total, ram.available
        if now - self._disk_at >= _DISK_S:
            self._disk, self._disk_at = _disk(self._folder), now
        return SystemFigures(
            rss=rss,
            shared=min(shared, rss),
            pss=self._pss,
            peak_rss=max(peak_rss(), rss),
            ram=self._ram[0],
            available=self._ram[1],
            disk=self._disk[0],
            disk_free=self._disk[1],
        )

    def _resident(self) -> tuple[int, int]:
        """Bytes of this process in RAM, and those of them that are files; read four times a second, so plainly."""
        try:
            fields = _STATM.read_bytes().split()
        except OSError:
            info = self._process.memory_info()
            return info.rss, getattr(info, "shared", 0)
        return int(fields[1]) * _PAGE, int(fields[2]) * _PAGE


def peak_rss() -> int:
    """The most of this process that was ever in RAM; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _disk(folder: Path) -> tuple[int, int]:
    import shutil

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    with contextlib.suppress(OSError):
        usage = shutil.disk_usage(folder)
        return usage.total, usage.free
    return 0, 0
