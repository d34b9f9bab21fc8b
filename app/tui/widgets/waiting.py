"""Messages sent while an answer was being written: they wait here, above the input, and go out one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from octavo.app.tui.text import one_line

_SHOWN = 3  # messages; more are counted
_SHORT = 40  # characters of the only one on a short screen


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message and its conversation, None for the new one that has no row yet."""

    conversation_id: str | None
    text: str


class WaitingMessages(Static):
    """Oldest first. A click asks for them back."""

    class TakeBack(Message):
        """The user wants them in the input again."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes, markup=False)
        self._messages: list[Waiting] = []
        self.display = False

    @property
    def messages(self) -> tuple[Waiting, ...]:
        return tuple(self._messages)

    def put(self, conversation_id: str | None, text: str) -> None:
        self._change([*self._messages, Waiting(conversation_id, text)])

    def take(self) -> Waiting | None:
        """The one whose turn it is."""
        if not self._messages:
            return None
        first = self._messages[0]
        self._change(self._messages[1:])
        return first

    def take_all(self) -> list[str]:
        """The texts of all of them, which wait no longer."""
        texts = [message.text for message in self._messages]
        self._change([])
        return texts

    def created(self, conversation_id: str) -> None:
        """The new conversation has a row now."""
        self._change(
            [replace(item, conversation_id=item.conversation_id or conversation_id) for item in self._messages]
        )

    def forget(self, conversation_id: str) -> None:
        """The conversation is gone."""
        self._change([item for item in self._messages if item.conversation_id != conversation_id])

    def _change(self, messages: list[Waiting]) -> None:
        if messages != self._messages:
            self._messages = messages
            self.display = bool(messages)
            self.refresh(layout=True)

    def render(self) -> Content:
        number = len(self._messages)
        if self.screen.has_class("-short"):
            lines = [f"▸ {one_line(message.text, _SHORT)}" for message in self._messages[:1]]
            lines = [f"{line}  and {number - 1} more" if number > 1 else line for line in lines]
        else:
            lines = [f"▸ {one_line(message.text)}" for message in self._messages[:_SHOWN]]
            lines += [f"  and {number - _SHOWN} more"] if number > _SHOWN else []
        heading = Content("Sent after this answer; Esc stops it and puts them back into the input").stylize("dim")
        return Content("\n").join([heading, *map(Content, lines)])

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.TakeBack())
