"""What does not fit together in the memory stands here, above the input, until the person has decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from octavo.app.tui.text import one_line

Kind: TypeAlias = Literal["conflict", "correction"]
_LONGEST = 160  # characters of a statement
_FRAME = 5  # columns of margin, border and padding


@dataclass(frozen=True, slots=True)
class Alarm:
    """Two statements that do not go together. A conflict waits for a decision; of a correction the newer statement
    counts already, and it can be undone. `key` is the conflict's id, or the line of the log."""

    kind: Kind
    key: str
    verdict: str
    old: str
    old_said: str
    new: str
    reason: str
    checked_by: str

    @property
    def title(self) -> str:
        """What is the matter, in one line."""
        if self.kind == "correction":
            return "This replaces what you said before"
        return "A health fact changed" if self.verdict == "update" else "This does not fit what you said before"


class AlarmBar(Static):
    """Shows the first of its alarms and how many there are: in one line after "later", and with a line for each side
    on a short screen."""

    @dataclass
    class Decided(Message):
        """A click on a choice: both, new, forget, ok, undo or later."""

        alarm: Alarm
        choice: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._alarms: tuple[Alarm, ...] = ()
        self._is_small = False
        self.display = False

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        return self._alarms

    def show(self, alarms: Sequence[Alarm], *, small: bool | None = None) -> None:
        """Show these, the newest first; `small` None keeps the size unless something is new."""
        known = {alarm.key for alarm in self._alarms}
        if small is None:
            small = self._is_small and all(alarm.key in known for alarm in alarms)
        self._alarms, self._is_small = tuple(alarms), small
        self.display = bool(alarms)
        self.refresh(layout=True)

    def render(self) -> Content:
        if not self._alarms:
            return Content("")
        alarm, number = self._alarms[0], len(self._alarms)
        more = f"  (1 of {number})" if number > 1 else ""
        if self._is_small:
            waits = "1 alarm waits" if number == 1 else f"{number} alarms wait"
            return Content.assemble((f"⚠ Memory: {waits} for your decision", "bold"), "  F6 shows it")
        sides = [
            Content.assemble(("  before  ", "dim"), one_line(alarm.old, _LONGEST), (f"  ({alarm.old_said})", "dim")),
            Content.assemble(("  now     ", "dim"), one_line(alarm.new, _LONGEST)),
        ]
        if self.screen.has_class("-short") and isinstance(self.parent, Widget):
            room = max(self.parent.size.width - _FRAME, 20)
            sides = [side.truncate(room, ellipsis=True) for side in sides]
        title = Content.styled(f"⚠ {alarm.title}{more}", "bold")
        reason = Content.assemble(("  because ", "dim"), alarm.reason, (f" ({alarm.checked_by})", "dim"))
        return Content("\n").join([title, *sides, reason, Content("  ") + Content("  ").join(self._choices(alarm))])

    def _choices(self, alarm: Alarm) -> list[Content]:
        if alarm.kind == "correction":
            return [_choice("That is right", "ok"), _choice("undo it", "undo"), Content("F7 undoes, F6 shows it")]
        return [
            _choice("keep both", "both"),
            _choice("newest wins", "new"),
            _choice("forget one…", "forget"),
            _choice("later", "later"),
            Content("F6 decides"),
        ]

    def action_choose(self, choice: str) -> None:
        self.post_message(self.Decided(self._alarms[0], choice))


def _choice(label: str, action: str) -> Content:
    return Content(label).stylize(Style.from_meta({"@click": f"choose({action!r})"})).stylize("underline bold")
