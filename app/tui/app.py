"""The Textual program: themes, clipboard, signals, and the one screen that is always there.

Importing this, and painting the first frame, must stay cheap: torch, sqlite-utils, pydantic and the Markdown parser
are imported later, in threads.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

import octavo.assets
from octavo.app.tui.clipboard import copy_in_tmux, osc52
from octavo.app.tui.screens.chat import ChatScreen
from octavo.app.tui.state import InputHistory, Preferences
from octavo.app.tui.themes import OCTAVO_DARK, OCTAVO_LIGHT

if TYPE_CHECKING:
    from octavo.app.tui.backend import OpenBackend

_QUIT_SECONDS = 2.0  # within which a second Ctrl+C quits


class OctavoApp(App[None]):
    """`state` is the folder that choices and inputs are remembered in; None remembers nothing."""

    TITLE = "Octavo"
    CSS_PATH = Path(octavo.assets.__file__).with_name("octavo.tcss")
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "interrupt", "Interrupt", show=False, priority=True)]

    def __init__(self, open_backend: OpenBackend, state: Path | None = None) -> None:
        self._state_file = state / "screen.json" if state else None
        self.preferences = Preferences.load(self._state_file) if self._state_file else Preferences()
        super().__init__()
        self._open_backend = open_backend
        self._history = InputHistory(state / "inputs.jsonl" if state else None)
        self._chat: ChatScreen | None = None
        self._interrupted = 0.0
        self.failure: Exception | None = None
        self.register_theme(OCTAVO_DARK)
        self.register_theme(OCTAVO_LIGHT)
        chosen = self.preferences.theme
        self.theme = chosen if chosen in self.available_themes else Preferences.theme

    def get_default_screen(self) -> Screen[None]:
        self._chat = ChatScreen(self._open_backend, self._history)
        return self._chat

    @property
    def chat(self) -> ChatScreen:
        """The screen below all dialogs."""
        assert self._chat is not None, "the default screen is made first"
        return self._chat

    def on_mount(self) -> None:
        self._catch_signals()
        # Textual comes back to an empty screen, and paints only what changes from then on.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))

    def _catch_signals(self) -> None:
        """End as Ctrl+Q does where the system asks for it, so that terminal and conversation are left in order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                loop.add_signal_handler(number, self._end_by_signal, number)
            except (NotImplementedError, RuntimeError, ValueError):
                return  # not the main thread, or a platform without
        for number in (signal.SIGTSTP, signal.SIGCONT):
            # Textual's own handlers write to the terminal in the middle of whatever runs; in the middle of another
            # write that is a deadlock. The loop calls them in between.
            handler = signal.getsignal(number)
            if callable(handler):
                loop.add_signal_handler(number, handler, number, None)

    def _end_by_signal(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def fail(self, error: Exception) -> None:
        """Leave; the command line says why."""
        self.failure = error
        self.exit(return_code=1)

    def close_backend(self) -> None:
        """Once the screen is gone: end the engine's threads and let go of the database."""
        if self._chat is not None and self._chat.backend is not None:
            self._chat.backend.close()
            for sentence in self._chat.events.last_words():
                sys.stderr.write(f"{sentence}\n")

    # Choices

    def remember(self, **choices: object) -> None:
        """Keep choices for the next start."""
        self.preferences = replace(self.preferences, **choices)  # type: ignore[arg-type]
        if self._state_file is not None:
            self.preferences.save(self._state_file)

    def watch_theme(self, old: str, new: str) -> None:
        if self.is_running and new != self.preferences.theme:
            self.remember(theme=new)

    # Clipboard

    def copy(self, text: str, what: str) -> None:
        """Copy and say so."""
        self.copy_to_clipboard(text)
        self.notify(f"Copied {what}, {len(text):,} characters.", markup=False, timeout=2)

    def copy_to_clipboard(self, text: str) -> None:
        """To the terminal's clipboard, through tmux where we are in it."""
        self._clipboard = text
        if self._driver is not None:
            self._driver.write(osc52(text))
        self.run_worker(lambda: copy_in_tmux(text), thread=True, exit_on_error=False)

    # Keys

    def action_interrupt(self) -> None:
        """Ctrl+C: copy the selection; stop the answer; clear the input; twice within two seconds: quit."""
        selected = self._selected_text()
        if selected:
            self.copy(selected, "the selection")
            self.screen.clear_selection()
            return
        if self.chat.stop():
            return
        now = time.monotonic()
        if now - self._interrupted < _QUIT_SECONDS:
            self.exit()
            return
        if self.screen is self.chat and self.chat.prompt.text:
            self.chat.prompt.set_text("")
            return
        self._interrupted = now
        self.notify("Ctrl+C once more to quit.", timeout=_QUIT_SECONDS, markup=False)

    def _selected_text(self) -> str | None:
        focused = self.focused
        return getattr(focused, "selected_text", "") or self.screen.get_selected_text()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every slash command, and Textual's own where they make sense."""
        from octavo.app.tui.commands import COMMANDS

        for command in COMMANDS:
            title = command.name.capitalize()
            keys = f" ({command.keys})" if command.keys else ""

            async def run(name: str = command.name) -> None:
                await getattr(self.chat, f"command_{name}")("")

            yield SystemCommand(title, f"{command.help}{keys}", run)
