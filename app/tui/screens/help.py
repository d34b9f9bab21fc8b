"""F1: the keys and the commands."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from octavo.app.tui.commands import COMMANDS

_KEY_WIDTH = 18
_TEXT_WIDTH = 50  # fits a terminal of 80 columns
_KEYS = (
    ("Enter", "send the message"),
    ("Ctrl+J", "new line (Alt+Enter and, where the terminal knows it, Shift+Enter too)"),
    ("Esc", "stop the answer; leave a dialog; back to the input"),
    ("Ctrl+C", "copy what is selected; stop the answer; clear the input; twice: quit"),
    ("Up / Down", "earlier and later inputs, at the first and last line"),
    ("PgUp / PgDn", "scroll the conversation; Ctrl+Home and Ctrl+End: its ends"),
    ("Tab", "next place: conversations, messages, code blocks, input"),
    ("Ctrl+P", "all commands"),
)
_MESSAGE_KEYS = (
    ("Up / Down", "the message before, the one after"),
    ("c", "copy the message, or the code block that has the focus"),
    ("e", "edit your message: the new wording becomes a branch beside it"),
    ("r", "answer again: the new answer becomes a branch"),
    ("m", "the memories an answer was given with"),
    ("v", "where an answer came from: the evidence"),
    ("1 to 9", "open what the answer cites, or what came nearest"),
    ("Left / Right", "the branch before, the one after"),
    ("Enter", "fold or unfold a long message of yours"),
)
_LIST_KEYS = (("Enter", "open"), ("F8", "rename"), ("Delete", "delete"))


class HelpScreen(ModalScreen[None]):
    """Everything that can be done, in one scrolling page."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,f1,q,question_mark", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        commands = tuple((command.usage, _with_keys(command.help, command.keys)) for command in COMMANDS)
        with Vertical(classes="dialog -tall"):
            yield Static("Keys and commands", classes="dialog-title")
            with VerticalScroll():
                yield Static(_table("Keys", _KEYS))
                yield Static(_table("On a message (Tab or a click leads there)", _MESSAGE_KEYS))
                yield Static(_table("In the list of conversations", _LIST_KEYS))
                yield Static(_table("Commands, in the input", commands))
            yield Static("[@click=screen.dismiss]Esc closes[/]", classes="dialog-foot")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


def _with_keys(text: str, keys: str) -> str:
    return f"{text}  ({keys})" if keys else text


def _table(title: str, rows: tuple[tuple[str, str], ...]) -> Content:
    lines = [Content.styled(title, "bold $text-accent")]
    for left, right in rows:
        first, *rest = textwrap.wrap(right, _TEXT_WIDTH)
        lines.append(Content.assemble((f"{left:<{_KEY_WIDTH}}", "bold"), first))
        lines += [Content(" " * _KEY_WIDTH + line) for line in rest]
    return Content("\n").join([*lines, Content("")])
