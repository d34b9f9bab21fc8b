"""A model on its way: progress, and a way out that keeps what has arrived."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, ProgressBar, Static

from octavo.app.models.text import human_size
from octavo.app.tui.text import seconds

if TYPE_CHECKING:
    from octavo.app.models.catalogue import CatalogueEntry
    from octavo.storage.paths import Paths

_SHOWN_EVERY = 0.1  # seconds


class _CancelledError(Exception):
    """The user left the download; raised out of its progress callback."""


class Download(ModalScreen[bool]):
    """Fetches a model of the catalogue; True when it is there and was checked."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "Cancel")]

    @dataclass
    class Advanced(Message):
        """Bytes there, and in all."""

        done: int
        total: int

    @dataclass
    class Said(Message):
        """A sentence about what is going on."""

        text: str

    @dataclass
    class Ended(Message):
        """None where it worked."""

        error: Exception | None

    def __init__(self, entry: CatalogueEntry, paths: Paths, *, offline: bool) -> None:
        super().__init__()
        self._entry, self._paths, self._offline = entry, paths, offline
        self._cancelled = threading.Event()
        self._is_running = False
        self._started: tuple[float, int] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(f"{self._entry.name}, {human_size(self._entry.size)}", classes="dialog-title", markup=False)
            yield ProgressBar(total=self._entry.size, show_eta=False, id="progress")
            yield Static("", id="progress-figures", markup=False)
            yield Static("", id="progress-text", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button("Try again", id="again", variant="primary", compact=True)
                yield Button("Cancel (Esc)", id="cancel", compact=True)

    def on_mount(self) -> None:
        self._start()

    @on(Button.Pressed, "#again")
    def _start(self) -> None:
        self.query_one("#again").display = False
        self.query_one("#cancel").focus()
        self._cancelled.clear()
        self._is_running, self._started = True, None
        self.run_worker(self._fetch, thread=True)

    def _fetch(self) -> None:
        """In a thread: fetch and check; everything goes out as messages."""
        from octavo.app.models.resolve import pull_entry

        shown = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal shown
            if self._cancelled.is_set():
                raise _CancelledError
            now = time.monotonic()
            if now - shown >= _SHOWN_EVERY or done == total:
                shown = now
                self.post_message(self.Advanced(done, total))

        def announce(text: str) -> None:
            self.post_message(self.Said(text))

        try:
            pull_entry(self._entry, self._paths, offline=self._offline, announce=announce, progress=progress)
        except Exception as error:
            self.post_message(self.Ended(error))
        else:
            self.post_message(self.Ended(None))

    @on(Advanced)
    def _advanced(self, event: Advanced) -> None:
        now = time.monotonic()
        if self._started is None:
            self._started = now, event.done
        bar = self.query_one(ProgressBar)
        bar.update(total=event.total, progress=event.done)
        since, before = self._started
        speed = (event.done - before) / (now - since) if now - since > 1 else 0.0
        text = f"{human_size(event.done)} of {human_size(event.total)}"
        if speed > 0:
            text += f" · {human_size(int(speed))}/s · {seconds((event.total - event.done) / speed)} left"
        if event.done == event.total:
            text += " · checking…"
        self.query_one("#progress-figures", Static).update(text)

    @on(Said)
    def _said(self, event: Said) -> None:
        self.query_one("#progress-text", Static).update(event.text)

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        self._is_running = False
        if event.error is None:
            self.dismiss(True)
        elif isinstance(event.error, _CancelledError) or self._cancelled.is_set():
            self.dismiss(False)
        else:
            self.query_one("#progress-text", Static).update(str(event.error))
            again = self.query_one("#again", Button)
            again.display = True
            again.focus()

    @on(Button.Pressed, "#cancel")
    def action_cancel(self) -> None:
        """Leave; what has arrived is kept for the next try."""
        if not self._is_running:
            self.dismiss(False)
            return
        self._cancelled.set()
        self.query_one("#progress-text", Static).update("Stopping… what has arrived is kept for the next try.")
