"""How other threads reach the screen: as messages, or as engine events that wait in a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textual.message import Message


class EngineNews(Message):
    """Events wait in the queue. One message may stand for many events."""


@dataclass
class Finished(Message):
    """A worker's result, and the method of the screen that takes it."""

    then: Callable[[Any], Any] | None
    result: Any


@dataclass
class Failed(Message):
    """A worker's error, and the method that takes it; None shows it as a notice."""

    error: Exception
    otherwise: Callable[[Exception], Any] | None = None


class EventQueue:
    """Engine events on their way to the screen: none lost, none reordered, one wake-up for a burst of them."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._events: list[Any] = []
        self._lock = threading.Lock()
        self._wake = wake

    def push(self, event: Any) -> None:
        """Called from the engine's thread."""
        with self._lock:
            self._events.append(event)
            is_first = len(self._events) == 1
        if is_first:
            self._wake()

    def drain(self) -> list[Any]:
        """All events waiting, oldest first. Called from the screen."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def last_words(self) -> list[str]:
        """Sentences about trouble with kept pages that came when nothing was shown any more."""
        from octavo.app.assistant.engine_events import PagesForgotten, ProblemsFound

        told: list[str] = []
        for event in self.drain():
            if isinstance(event, ProblemsFound):
                told += event.sentences
            elif isinstance(event, PagesForgotten) and event.result.problem:
                told.append(event.result.problem)
        return told
