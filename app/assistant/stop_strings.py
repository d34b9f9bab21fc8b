"""Ending an answer at a stop string, without ever showing the beginning of one."""

from __future__ import annotations


class StopStrings:
    """Filters streamed text: passes what cannot belong to a stop string, and ends at the first one found."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """Add streamed text; return what may be shown now. After a stop string was found that is nothing."""
        if self.found:
            return ""
        self._held += text
        at = min((place for stop in self._stops if (place := self._held.find(stop)) >= 0), default=-1)
        if at >= 0:
            self.found = True
            shown, self._held = self._held[:at], ""
            return shown
        keep = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def finish(self) -> str:
        """The text still held back, once no more can come."""
        shown, self._held = self._held, ""
        return shown

    def _overlap(self, stop: str) -> int:
        """Length of the longest end of the held text that starts `stop`."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if stop.startswith(self._held[-n:])), 0)
