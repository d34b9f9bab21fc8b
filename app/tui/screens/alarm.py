"""An alarm of the memory, to be decided: both sides, the reason, and every choice there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.text import visible

if TYPE_CHECKING:
    from octavo.app.tui.widgets.alarm_bar import Alarm

_CONFLICT = (
    ("both", "b", "Keep both; ask no more about these two"),
    ("new", "n", "The newest wins: what I said before holds no longer"),
    ("old", "o", "What I said before still holds; drop what I say now"),
    ("forget old", "", "Forget for good what I said before…"),
    ("forget new", "", "Forget for good what I say now…"),
    ("later", "l", "Decide later"),
)
_CORRECTION = (
    ("ok", "y", "That is right"),
    ("undo", "u", "Undo it: what I said before still holds"),
    ("forget old", "", "Forget for good what I said before…"),
    ("forget new", "", "Forget for good what I say now…"),
)


class AlarmScreen(ModalScreen[str]):
    """Returns the choice: both, new, old, "forget old", "forget new", ok, undo or later."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss('later')", "Later"),
        *((key, f"choose('{choice}')", label) for choice, key, label in (*_CONFLICT, *_CORRECTION) if key),
    ]

    def __init__(self, alarm: Alarm) -> None:
        super().__init__()
        self._alarm = alarm
        self._choices = _CORRECTION if alarm.kind == "correction" else _CONFLICT

    def compose(self) -> ComposeResult:
        alarm = self._alarm
        sides = Content("\n").join(
            [
                Content.assemble(("before  ", "dim"), visible(alarm.old), (f"  ({alarm.old_said})", "dim")),
                Content.assemble(("now     ", "dim"), visible(alarm.new)),
            ]
        )
        with Vertical(classes="dialog -wide -alarm"):
            yield Static(f"⚠ {alarm.title}", classes="dialog-title", markup=False)
            yield Static(sides, classes="dialog-text", markup=False)
            yield Static(f"{alarm.reason} Checked by {alarm.checked_by}.", classes="dialog-text", markup=False)
            yield OptionList(*(Option(_label(key, label), choice) for choice, key, label in self._choices))
            yield Static("Enter takes the choice · Esc decides later", classes="dialog-foot", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(str(event.option_id))

    def action_choose(self, choice: str) -> None:
        if any(choice == item for item, _, _ in self._choices):
            self.dismiss(choice)


def _label(key: str, label: str) -> Content:
    return Content.assemble((f"{key or ' '}  ", "bold"), label)
