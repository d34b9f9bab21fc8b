"""The commands that fit what was typed, shown above the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from octavo.app.tui.commands import SlashCommand


class Completions(OptionList, can_focus=False):
    """A list that never takes the focus: the input moves its highlight."""

    @dataclass
    class Taken(Message):
        """The user chose a command."""

        command: SlashCommand

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes, markup=False, compact=True)
        self._commands: Sequence[SlashCommand] = ()
        self.display = False

    def offer(self, commands: Sequence[SlashCommand]) -> None:
        """Show these, or nothing if there are none."""
        if commands != self._commands:
            self._commands = commands
            self.clear_options()
            width = max((len(command.usage) for command in commands), default=0) + 2
            self.add_options([Option(_row(command, width), id=command.name) for command in commands])
            self.highlighted = 0 if commands else None
        self.display = bool(commands)

    def step(self, by: int) -> None:
        if self._commands:
            self.highlighted = ((self.highlighted or 0) + by) % len(self._commands)

    @property
    def current(self) -> SlashCommand | None:
        """The highlighted command while the list is shown."""
        if not self.display or self.highlighted is None:
            return None
        return self._commands[self.highlighted]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Taken(self._commands[event.option_index]))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.prevent_default()


def _row(command: SlashCommand, width: int) -> Content:
    return Content.assemble((command.usage.ljust(width), "bold"), (f"{command.keys:<8}", "$text-accent"), command.help)
