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
        yield Static("[@click=screen.toggle_sidebar]≡[/]", id="top-menu")
        yield Static("Octavo", id="top-title", markup=False)
        yield Static("[@click=app.command_palette]Commands ^P[/]   [@click=screen.help]Help F1[/]", id="top-buttons")

    def watch_title_text(self, title: str) -> None:
        if self.is_mounted:
            self.query_one("#top-title", Static).update(one_line(title) or "New conversation")
