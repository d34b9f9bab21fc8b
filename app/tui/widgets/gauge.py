"""The gauge: where every byte is, always on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.message import Message
from textual.widgets import Static

from octavo.app.tui import gauge_text

if TYPE_CHECKING:
    from octavo.app.assistant.reading import Context, Reading

_WIDE = 120  # columns and rows of the terminal from which there is room for a row a bar
_TALL = 34


class GaugeBars(Static):
    """Two rows on a small terminal, more on a large one. It is painted anew only where its text has changed."""

    class Clicked(Message):
        """The user wants to see more."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__("", id=id, classes=classes, markup=False)
        self._shown: tuple[str, int] = "", 0
        self._last: tuple[Reading, Context, float] | None = None

    def show(self, reading: Reading, context: Context, tokens_per_s: float) -> None:
        """Show a reading."""
        self._last = reading, context, tokens_per_s
        width = self.size.width or self.app.size.width
        if width <= 0:
            return
        is_wide = self.app.size.width >= _WIDE and self.app.size.height >= _TALL
        layout = gauge_text.wide if is_wide else gauge_text.compact
        content = layout(reading, context, tokens_per_s, width)
        key = content.plain, width
        if key != self._shown:
            taller = self._shown[0].count("\n") != key[0].count("\n") or not self._shown[0]
            self._shown = key
            self.update(content, layout=taller)

    def on_resize(self, event: events.Resize) -> None:
        if self._last is not None:
            self.show(*self._last)

    def on_click(self) -> None:
        self.post_message(self.Clicked())
