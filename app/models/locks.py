"""One process at a time for one model file. The lock dies with its process, so a killed one blocks nobody."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_SECONDS = 0.05


@contextlib.contextmanager
def file_lock(target: Path, announce: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock that belongs to `target`; waits for another holder after saying so."""
    folder = target.parent / ".locks"
    folder.mkdir(exist_ok=True)
    with (folder / f"{target.name}.lock").open("w") as handle:
        waiting = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    announce(f"Another process is at work on {target.name}; waiting for it to finish.")
                    waiting = True
                time.sleep(_POLL_SECONDS)
        yield
