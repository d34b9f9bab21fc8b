"""What the tabs of the inspection panel have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

if TYPE_CHECKING:
    from octavo.app.assistant.watch import PagesShown
    from octavo.app.tui.backend import Backend
    from octavo.app.tui.screens.chat import ChatScreen


class Steady(Static):
    """A text whose height the style sheet fixes: showing another one paints, and lays nothing out."""

    def show(self, content: Content | str) -> None:
        if content != self.content:
            self.update(content, layout=False)


class InspectionTab(Vertical):
    """Looks at what `chat` has open. Whatever reads a disk does so in a thread, by `in_thread`."""

    def __init__(self, chat: ChatScreen) -> None:
        super().__init__()
        self.chat = chat

    @property
    def backend(self) -> Backend:
        assert self.chat.backend is not None, "the panel opens only once the backend is open"
        return self.chat.backend

    @property
    def is_shown(self) -> bool:
        """Whether this is the tab that is looked at."""
        return self.is_attached and self.region.height > 0

    def in_thread(
        self,
        function: Callable[[], Any],
        then: Callable[[Any], Any],
        otherwise: Callable[[Exception], Any] | None = None,
        *,
        group: str = "default",
    ) -> None:
        """As the chat's; what comes once the panel is left is shown to nobody, but an error is told."""

        def shown(result: Any) -> None:
            if self.is_attached:
                then(result)

        def failed(error: Exception) -> None:
            (otherwise if otherwise is not None and self.is_attached else self.chat.show_error)(error)

        self.chat.in_thread(function, shown, failed, group=group)

    def activate(self) -> None:
        """The tab is shown now: take the focus, and look again."""

    def look(self) -> None:
        """An answer began or ended, or pages were forgotten: what is shown may have changed."""

    def pages_shown(self, event: PagesShown) -> None:
        """The engine's thread answered a question about pages, this tab's or another's."""
