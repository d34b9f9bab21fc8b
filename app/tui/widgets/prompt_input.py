"""The input: several lines, history, chips for large pastes. Enter sends, Ctrl+J begins a new line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from octavo.app.tui.dropped import dropped_paths
from octavo.app.tui.pastes import Pastes
from octavo.app.tui.state import InputHistory
from octavo.app.tui.text import one_line

_NEW_LINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter", "ctrl+enter"})


class PromptInput(TextArea):
    """A text area that sends. It grows with its text up to the height its stylesheet allows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.scroll_transcript(-1)", show=False),
        Binding("pagedown", "screen.scroll_transcript(1)", show=False),
        Binding("ctrl+e", "screen.edit_last", show=False),
        Binding("ctrl+home", "screen.scroll_to_start", show=False),
        Binding("ctrl+end", "screen.scroll_to_end", show=False),
    ]

    @dataclass
    class Submitted(Message):
        """The user sent `text`; chips are expanded."""

        text: str

    @dataclass
    class PathsDropped(Message):
        """The paste `text` names files or folders that are there."""

        paths: list[Path]
        text: str

    @dataclass
    class Completing(Message):
        """The user moves in, or takes from, the list of completions: -1, +1, or 0 to take."""

        step: int

    def __init__(self, history: InputHistory, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(
            id=id,
            classes=classes,
            compact=True,
            highlight_cursor_line=False,
        )
        self.ask_about(())
        self.pastes = Pastes()
        self.is_completing = False  # while the list of completions is open, it gets the arrow keys
        self._inputs = history

    def ask_about(self, names: Sequence[str]) -> None:
        """Say in the empty input what is asked: the documents of these names, or, without any, anything."""
        about = (
            f"about {one_line(names[0], 40)}" if len(names) == 1 else "about these documents" if names else "anything"
        )
        self.placeholder = f"Ask {about}  ·  / for commands"

    def set_text(self, text: str) -> None:
        """Replace the input, a large text by a chip, with the cursor at its end."""
        self.pastes.clear()
        self.load_text(self.pastes.take(text) if text else "")
        self.move_cursor(self.document.end)

    @property
    def whole_text(self) -> str:
        """The input with chips expanded."""
        return self.pastes.expand(self.text)

    def take_text(self) -> str:
        """The whole input; it is empty afterwards."""
        text = self.whole_text
        self._inputs.add(text)
        self.set_text("")
        return text

    async def _on_key(self, event: events.Key) -> None:
        if self._handle(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _handle(self, key: str) -> bool:
        if key in _NEW_LINE_KEYS:
            self.insert("\n")
            return True
        if self.is_completing and key in ("up", "down", "tab"):
            self.post_message(self.Completing({"up": -1, "down": 1, "tab": 0}[key]))
            return True
        if key == "enter":
            self._send()
            return True
        if key in ("up", "down"):
            return self._recall(older=key == "up")
        return False

    def _send(self) -> None:
        if self.text.strip():
            self.post_message(self.Submitted(self.whole_text))

    def _recall(self, *, older: bool) -> bool:
        """Fetch an earlier or later input, if the cursor cannot go further in that direction."""
        at_edge = self.navigator.is_first_wrapped_line if older else self.navigator.is_last_wrapped_line
        if not self.selection.is_empty or not at_edge(self.cursor_location):
            return False
        found = self._inputs.previous(self.whole_text) if older else self._inputs.next()
        if found is not None:
            self.set_text(found)
        return found is not None

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # TextArea would insert the text a second time
        paths = dropped_paths(event.text)
        if paths:
            self.post_message(self.PathsDropped(paths, event.text))
        else:
            self.insert_paste(event.text)

    def insert_paste(self, text: str) -> None:
        """Insert a paste at the cursor, in place of the selection."""
        result = self._replace_via_keyboard(self.pastes.take(text), *self.selection)
        if result is not None:
            self.move_cursor(result.end_location)
        self.focus()

    def action_delete_left(self) -> None:
        row, column = self.cursor_location
        start = self.pastes.chip_ending_at(self.document.get_line(row), column) if self.selection.is_empty else None
        if start is None:
            super().action_delete_left()
        else:
            self._delete_via_keyboard((row, start), (row, column))

    def action_delete_right(self) -> None:
        row, column = self.cursor_location
        end = self.pastes.chip_starting_at(self.document.get_line(row), column) if self.selection.is_empty else None
        if end is None:
            super().action_delete_right()
        else:
            self._delete_via_keyboard((row, column), (row, end))
