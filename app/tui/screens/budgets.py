"""What the model may take: its budgets and why they are so, and what of them is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from octavo.app.models.text import human_size
from octavo.app.tui.text import visible

if TYPE_CHECKING:
    from octavo.app.assistant.engine_events import Status


class BudgetsScreen(ModalScreen[None]):
    """`budgets` are the sentences that came with the model, `status` its figures as they were told last."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "dismiss", "Close")]

    def __init__(self, model: str, budgets: Sequence[str], status: Status | None) -> None:
        super().__init__()
        self._model, self._budgets, self._status = model, budgets, status

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static(f"Memory and disk for {visible(self._model)}", classes="dialog-title", markup=False)
            with VerticalScroll(id="budgets"):
                for sentence in self._budgets or ["No model is loaded yet; its budgets are made when it is."]:
                    yield Static(visible(sentence), classes="dialog-text", markup=False)
                if self._status is not None and self._status.kv_total:
                    yield Static(usage_text(self._status), markup=False)
            yield Static(
                "[@click=screen.dismiss]Esc closes[/] · settings vram, ram and disk change it", classes="dialog-foot"
            )

    def on_mount(self) -> None:
        self.query_one("#budgets").focus()


def usage_text(status: Status) -> str:
    """What is in use now, such as "In use now: 12.3 MB of the pool of 113 MB; ..."."""
    parts = [f"{human_size(status.kv_used)} of the pool of {human_size(status.kv_total)}"]
    if status.host_total:
        parts.append(f"{human_size(status.host_used)} of the {human_size(status.host_total)} of RAM below it")
    parts += [f"{human_size(status.weights)} of weights", f"{human_size(status.process_rss)} by the whole process"]
    return f"In use now: {', '.join(parts)}."
