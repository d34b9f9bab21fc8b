"""What is remembered: a list to look through and to forget from, with what is known about each memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.screens.dialogs import Confirm
from octavo.app.tui.text import one_line


@dataclass(frozen=True, slots=True)
class Row:
    """A memory as the list shows it; `about` are the lines below the list while it is highlighted."""

    memory_id: str
    text: str
    is_safety: bool
    about: tuple[str, ...]


class MemoriesScreen(ModalScreen[None]):
    """`notes` are sentences below the list; `forget` is called, after asking, with the id of a memory to forget."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "dismiss", "Close"),
        Binding("delete,d,backspace", "forget", "Forget"),
    ]

    def __init__(self, title: str, rows: Sequence[Row], notes: Sequence[str], forget: Callable[[str], None]) -> None:
        super().__init__()
        self._title, self._rows, self._notes, self._forget = title, list(rows), notes, forget

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static(self._title, classes="dialog-title", markup=False)
            yield OptionList(id="memories", markup=False)
            yield Static("", id="memory-about", markup=False)
            for note in self._notes:
                yield Static(note, classes="memory-note", markup=False)
            yield Static("d forgets the memory for good · Esc closes", classes="dialog-foot", markup=False)

    def on_mount(self) -> None:
        self._fill()
        self.query_one("#memories").focus()

    def _fill(self) -> None:
        options = self.query_one("#memories", OptionList)
        options.clear_options()
        options.add_options([Option(_prompt(row), row.memory_id) for row in self._rows])
        options.display = bool(self._rows)
        if self._rows:
            options.highlighted = 0
        else:
            self.query_one("#memory-about", Static).update("There is none.")

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        row = next((row for row in self._rows if row.memory_id == event.option_id), None)
        if row is not None:
            self.query_one("#memory-about", Static).update("\n".join(row.about))

    def action_forget(self) -> None:
        options = self.query_one("#memories", OptionList)
        if options.highlighted is None or not self._rows:
            return
        row = self._rows[options.highlighted]

        def confirmed(yes: bool | None) -> None:
            if yes:
                self._forget(row.memory_id)
                self._rows.remove(row)
                self._fill()

        detail = f"“{row.text}” is deleted for good, and is not picked up again from old messages."
        self.app.push_screen(Confirm("Forget this memory?", detail, yes="Forget"), confirmed)


def _prompt(row: Row) -> Content:
    mark = ("♥ ", "bold $text-warning") if row.is_safety else ("  ", "")
    return Content.assemble(mark, one_line(row.text))
