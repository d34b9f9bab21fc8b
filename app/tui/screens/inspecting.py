"""F2: the inspection panel. Every byte that the gauge counts can be looked at here, in six tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static, TabbedContent, TabPane

from octavo.app.tui.widgets.answer_tab import AnswerTab
from octavo.app.tui.widgets.gauge import GaugeBars
from octavo.app.tui.widgets.inspection_tab import InspectionTab
from octavo.app.tui.widgets.memory_tab import MemoryTab
from octavo.app.tui.widgets.pages_tab import PagesTab
from octavo.app.tui.widgets.store_tab import StoreTab
from octavo.app.tui.widgets.timings_tab import TimingsTab
from octavo.app.tui.widgets.triage_tab import TriageTab

if TYPE_CHECKING:
    from octavo.app.assistant.watch import PagesShown
    from octavo.app.tui.screens.chat import ChatScreen

_WIDE = 120
TABS: tuple[tuple[str, type[InspectionTab]], ...] = (
    ("Pages", PagesTab),
    ("Answer", AnswerTab),
    ("Memory", MemoryTab),
    ("Store", StoreTab),
    ("Timings", TimingsTab),
    ("Triage", TriageTab),
)


class _Tabs(TabbedContent):
    """Shows the tab that was chosen last, also where an earlier one gets the focus only now."""

    def on_tab_pane_focused(self, event: TabPane.Focused) -> None:
        event.stop()
        event.prevent_default()


class InspectionScreen(Screen[None]):
    """Shows what `chat` has open; the answer being written goes on meanwhile."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2", "dismiss", "Back"),
        Binding("f6", "alarms", "Alarms", show=False, priority=True),
        Binding("f7", "undo_memory", "Undo", show=False, priority=True),
        *(Binding(str(at), f"tab({at})", show=False) for at in range(1, len(TABS) + 1)),
    ]

    def __init__(self, chat: ChatScreen) -> None:
        super().__init__()
        self.chat = chat

    def compose(self) -> ComposeResult:
        yield Static("Inspection · 1-6 choose a tab · Esc goes back", id="inspection-title", markup=False)
        with _Tabs(id="inspection"):
            for at, (name, kind) in enumerate(TABS, start=1):
                with TabPane(f"{at} {name}", id=f"tab-{name.lower()}"):
                    yield kind(self.chat)
        yield GaugeBars(id="gauge")

    def on_mount(self) -> None:
        self.chat.also_show(self.query_one(GaugeBars))

    def on_unmount(self) -> None:
        self.chat.also_show(None)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= _WIDE, "-wide")

    def action_tab(self, number: int) -> None:
        self.query_one(TabbedContent).active = f"tab-{TABS[number - 1][0].lower()}"

    def action_alarms(self) -> None:
        self.chat.action_alarms()

    def action_undo_memory(self) -> None:
        self.chat.action_undo_memory()

    def memory_changed(self) -> None:
        """Something was decided, undone or forgotten."""
        self.query_one(MemoryTab).look()

    def look_again(self) -> None:
        """Show the tab as it is now; the others look when they are chosen."""
        if self.is_mounted and (tab := self.active) is not None:
            tab.look()

    @on(TabbedContent.TabActivated)
    def _activated(self, event: TabbedContent.TabActivated) -> None:
        if event.pane is not None:
            self.call_after_refresh(self._activate, event.pane)

    def _activate(self, pane: TabPane) -> None:
        """Unless another tab was chosen meanwhile."""
        if self.query_one(TabbedContent).active_pane is pane:
            pane.query_one(InspectionTab).activate()

    @property
    def active(self) -> InspectionTab | None:
        """The tab that is shown."""
        pane = self.query_one(TabbedContent).active_pane
        return pane.query_one(InspectionTab) if pane is not None else None

    def pages_shown(self, event: PagesShown) -> None:
        """The engine's thread answered a question about pages."""
        for tab in self.query(InspectionTab):
            tab.pages_shown(event)
