"""What the model may take: its budgets and why they are so, and what of them is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from octavo.app.tui.gauge_text import against
from octavo.app.tui.text import visible

if TYPE_CHECKING:
    from octavo.app.assistant.reading import Reading


class BudgetsScreen(ModalScreen[None]):
    """`budgets` are the sentences that came with the model, `reading` is the gauge's last."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "dismiss", "Close")]

    def __init__(self, model: str, budgets: Sequence[str], reading: Reading | None) -> None:
        super().__init__()
        self._model, self._budgets, self._reading = model, budgets, reading

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static(f"Memory and disk for {visible(self._model)}", classes="dialog-title", markup=False)
            with VerticalScroll(id="budgets"):
                for sentence in self._budgets or ["No model is loaded yet; its budgets are made when it is."]:
                    yield Static(visible(sentence), classes="dialog-text", markup=False)
                if self._budgets and self._reading is not None:
                    yield Static(usage_text(self._reading), markup=False)
            yield Static(
                "[@click=screen.dismiss]Esc closes[/] · settings vram, ram and disk change it", classes="dialog-foot"
            )

    def on_mount(self) -> None:
        self.query_one("#budgets").focus()


def usage_text(reading: Reading) -> str:
    """What is in use now in the gauge's figures, such as "In use now: RAM 912M KV 126M/366M, NVMe 100M/64.0G."."""
    return f"In use now: {', '.join(f'{bar.name} {against(bar)}' for bar in reading.bars)}."
