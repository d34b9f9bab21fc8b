"""The first row: the conversation's title, and what the mouse needs to reach everything."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.widgets import Static

from octavo.app.tui.text import one_line


class TopBar(Horizontal):
    """`title_text` is shown between the buttons."""

    title_text: reactive[str] = reactive("Octavo")

    def compose(self) -> ComposeResult:
        yield _Press("≡", "screen.toggle_sidebar", id="top-menu")
        yield Static("Octavo", id="top-title", markup=False)
        yield _Press("Commands ^P", "app.command_palette")
        yield _Press("Help F1", "screen.help")

    def watch_title_text(self, title: str) -> None:
        if self.is_mounted:
            self.query_one("#top-title", Static).update(one_line(title) or "New conversation")


class _Press(Static):
    """A word that runs an action where it is clicked."""

    def __init__(self, label: str, action: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(label, id=id, markup=False)
        self._action = action

    async def on_click(self) -> None:
        await self.run_action(self._action)
