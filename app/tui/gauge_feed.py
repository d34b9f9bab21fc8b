"""What feeds the gauge: four times a second the engine's last figures and the system's become a reading."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from octavo.app.assistant.probe import Probe
from octavo.app.assistant.reading import Context, Meter, Reading

if TYPE_CHECKING:
    from pathlib import Path

    from octavo.app.assistant.snapshot import Snapshot

TICK_S = 0.25
_STEP = 50 * 10**6  # bytes; what others take and leave is shown in three figures


class GaugeFeed:
    """Used by the screen's thread; only the proportional set size is looked up in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._probe = Probe(folder)
        self._meter = Meter()
        self._looking: threading.Thread | None = None
        self._snapshot: Snapshot | None = None
        self._seen: tuple[object, ...] = ()
        self._last: Reading | None = None

    def read(self, snapshot: Snapshot | None, context: Context) -> Reading:
        """The reading of this moment: the same object as before where nothing that can be seen has changed."""
        if self._probe.wants_pss and (self._looking is None or not self._looking.is_alive()):
            self._looking = threading.Thread(target=self._probe.measure_pss, name="octavo-pss", daemon=True)
            self._looking.start()
        system = self._probe.measure()
        seen = system.rss >> 20, system.pss >> 20, system.available // _STEP, system.disk_free // _STEP, context
        last = self._last
        if last is not None and snapshot is self._snapshot and seen == self._seen and not (last.up or last.down):
            return last
        self._snapshot, self._seen = snapshot, seen
        self._last = self._meter.read(snapshot, system, context, time.monotonic())
        return self._last
