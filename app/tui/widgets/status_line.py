"""The last row: what is going on, the model, the context in use and the speed. What memory holds is the gauge's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

_NEARLY_FULL = 0.8


@dataclass(frozen=True, slots=True)
class Figures:
    """What the status line shows. Zeros and empty texts are left out."""

    state: str = ""
    model: str = ""
    used: int = 0
    limit: int = 0
    tokens_per_s: float = 0.0
    is_busy: bool = False

    def context_text(self) -> str:
        if not self.limit:
            return ""
        return f"{self.used:,}/{self.limit:,} ({100 * self.used / self.limit:.0f}%)"

    def speed_text(self) -> str:
        return f"{self.tokens_per_s:.1f} tok/s" if self.tokens_per_s else ""


class StatusLine(Horizontal):
    """Posts ModelClicked where the model's name is clicked. `figures` is a reactive value."""

    figures: reactive[Figures] = reactive(Figures())

    class ModelClicked(Message):
        """The user wants another model."""

    def compose(self) -> ComposeResult:
        yield Static("", id="status-state", markup=False)
        yield _Model("", id="status-model", markup=False)
        yield Static("", id="status-context", markup=False)
        yield Static("", id="status-speed", markup=False)

    def change(self, **values: object) -> None:
        """Set some of the figures."""
        self.figures = replace(self.figures, **values)  # type: ignore[arg-type]

    def watch_figures(self, old: Figures, new: Figures) -> None:
        if not self.is_mounted:
            return
        parts = {
            "state": new.state,
            "model": new.model,
            "context": new.context_text(),
            "speed": new.speed_text(),
        }
        for name, text in parts.items():
            part = self.query_one(f"#status-{name}", Static)
            if part.content != text:
                part.update(text)
            part.display = bool(text) or name == "state"
        self.set_class(new.is_busy, "-busy")
        self.set_class(bool(new.limit) and new.used > _NEARLY_FULL * new.limit, "-nearly-full")


class _Model(Static):
    def on_click(self) -> None:
        self.post_message(StatusLine.ModelClicked())
