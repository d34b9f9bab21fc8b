"""What feeds the gauge: four times a second the engine's last figures and the system's become a reading."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from octavo.app.assistant.probe import Probe
from octavo.app.assistant.reading import Context, Meter, Reading

if TYPE_CHECKING:
    from pathlib import Path

    from octavo.app.assistant.snapshot import Snapshot

TICK_S = 0.25
_STEP = 50 * 10**6  # bytes; what others take and leave is shown in three figures


class GaugeFeed:
    """Used by the screen's thread. The system is asked in a thread of its own: a disk that does not answer must not
    stop the screen.
    """

    def __init__(self, folder: Path) -> None:
        self._probe = Probe(folder)
        self._system = self._probe.measure()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="octavo-probe", daemon=True)
        self._thread.start()
        self._meter = Meter()
        self._snapshot: Snapshot | None = None
        self._seen: tuple[object, ...] = ()
        self._last: Reading | None = None

    def read(self, snapshot: Snapshot | None, context: Context) -> Reading:
        """The reading of this moment: the same object as before where nothing that can be seen has changed."""
        system = self._system
        seen = system.rss >> 20, system.pss >> 20, system.available // _STEP, system.disk_free // _STEP, context
        last = self._last
        if last is not None and snapshot is self._snapshot and seen == self._seen and not (last.up or last.down):
            return last
        self._snapshot, self._seen = snapshot, seen
        self._last = self._meter.read(snapshot, system, context, time.monotonic())
        return self._last

    @property
    def is_looking(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread, soon."""
        self._closing.set()

    def _look(self) -> None:
        while not self._closing.wait(TICK_S):
            with suppress(OSError):  # the last figures stay
                if self._probe.wants_pss:
                    self._probe.measure_pss()
                self._system = self._probe.measure()
