"""The line above the input that says which documents answer, and what is being done with them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from octavo.app.tui.text import count, one_line

_NAMED = 2  # documents; more are counted


@dataclass(frozen=True, slots=True)
class BarState:
    """`names` are open here; `work` is what goes on, such as "Reading files, 12 of 340"; `reading` how far the reading
    of whole documents is, and `is_read` that it is done."""

    names: tuple[str, ...] = ()
    num_documents: int = 0
    mode: str = "auto"
    work: str = ""
    reading: str = ""
    is_read: bool = False

    def text(self) -> str:
        parts = []
        if self.names:
            shown = [one_line(name, 40) for name in self.names[:_NAMED]]
            more = len(self.names) - len(shown)
            parts.append(f"▤ {', '.join(shown)}{f' and {more} more' if more else ''}")
            if self.num_documents and self.num_documents != len(self.names):
                parts.append(count(self.num_documents, "document"))
            if not self.work:
                parts.append(self._how())
        return " · ".join([*parts, *(part for part in (self.reading, self.work) if part)])

    def _how(self) -> str:
        """How the next question is answered."""
        if not self.num_documents:
            return "nothing to ask about"
        if self.mode == "search":
            return "always searched"
        if self.mode == "read" or self.is_read:
            return "read whole"
        return "searched until read" if self.reading else "searched"


class DocumentsBar(Static):
    """Hidden while there is nothing to say. A click asks for the list of documents."""

    state: reactive[BarState] = reactive(BarState())

    class Clicked(Message):
        """The user wants to see the documents."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes, markup=False)
        self.display = False

    def change(self, **values: object) -> None:
        """Set some of the state."""
        self.state = replace(self.state, **values)  # type: ignore[arg-type]

    def watch_state(self, state: BarState) -> None:
        text = state.text()
        self.display = bool(text)
        if text:
            self.update(text)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked())
