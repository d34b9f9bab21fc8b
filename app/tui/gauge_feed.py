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


class GaugeFeed:
    """Used by the screen's thread; only the proportional set size is looked up in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._probe = Probe(folder)
        self._meter = Meter()
        self._looking: threading.Thread | None = None

    def read(self, snapshot: Snapshot | None, context: Context) -> Reading:
        """The reading of this moment."""
        if self._probe.wants_pss and (self._looking is None or not self._looking.is_alive()):
            self._looking = threading.Thread(target=self._probe.measure_pss, name="octavo-pss", daemon=True)
            self._looking.start()
        return self._meter.read(snapshot, self._probe.measure(), context, time.monotonic())
