"""Small questions in the middle of the screen."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static


class AskText(ModalScreen[str | None]):
    """Asks for one line of text; None if the user left it."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Cancel")]

    def __init__(self, question: str, value: str = "", *, placeholder: str = "", is_secret: bool = False) -> None:
        super().__init__()
        self._question, self._value, self._placeholder = question, value, placeholder
        self._is_secret = is_secret

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, classes="dialog-title", markup=False)
            yield Input(self._value, placeholder=self._placeholder, password=self._is_secret, id="answer")
            with Horizontal(classes="dialog-buttons"):
                yield Button("OK", variant="primary", id="ok", compact=True)
                yield Button("Cancel", id="cancel", compact=True)

    @on(Input.Submitted)
    @on(Button.Pressed, "#ok")
    def _accept(self) -> None:
        self.dismiss(self.query_one("#answer", Input).value.strip())

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Asks before something is done. Cancel has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,n", "dismiss(False)", "Cancel"), ("y", "dismiss(True)", "Yes")]

    def __init__(self, question: str, detail: str, *, yes: str, variant: Literal["error", "primary"] = "error") -> None:
        super().__init__()
        self._variant = variant
        self._question, self._detail, self._yes = question, detail, yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, classes="dialog-title", markup=False)
            yield Static(self._detail, classes="dialog-text", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(f"{self._yes} (y)", variant=self._variant, id="yes", compact=True)
                yield Button("Cancel (n)", id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")
