"""The conversations: a search field above a list that is filled page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.text import one_line

if TYPE_CHECKING:
    from octavo.storage.conversations import Conversation

PAGE = 50
_NEAR = 10  # rows from the end at which the next page is asked for
_SEARCH_PAUSE = 0.15  # seconds without a key before a search begins
_ROW_CELLS = 26  # what a row holds in a sidebar of 30
UNTITLED = "New conversation"


class ConversationList(OptionList):
    """Conversations newest first, below headings that say when. Enter opens, F8 renames, Delete deletes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f8", "ask('rename')", "Rename", show=False),
        Binding("delete,backspace", "ask('delete')", "Delete", show=False),
    ]

    @dataclass
    class Opened(Message):
        """The user chose a conversation."""

        conversation_id: str

    @dataclass
    class ActionRequested(Message):
        """The user asked to rename or delete the highlighted conversation."""

        action: str
        conversation_id: str

    @dataclass
    class NextPage(Message):
        """The end of what is listed comes near; `before` is the (updated, id) of the last one."""

        before: tuple[str, str]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes, markup=False, compact=True)
        self._listed: dict[str, Conversation] = {}
        self._asked: tuple[str, str] | None = None
        self._is_complete = False
        self._heading = ""
        self.current_id: str | None = None

    @property
    def conversations(self) -> Sequence[Conversation]:
        """Those listed so far, newest first."""
        return list(self._listed.values())

    def on_focus(self) -> None:
        """Enter opens something at once."""
        if self.highlighted is None:
            self.action_first()

    def start(self, page: Iterable[Conversation]) -> None:
        """List from the beginning; the highlighted conversation stays highlighted if it is still there."""
        marked = self.highlighted_id
        self.clear_options()
        self._listed, self._heading, self._asked, self._is_complete = {}, "", None, False
        self.extend(page)
        self.mark(marked or self.current_id)

    def extend(self, page: Iterable[Conversation]) -> None:
        """List the next page."""
        new = [item for item in page if item.id not in self._listed]
        self._is_complete = not new
        options = []
        for item in new:
            heading = heading_for(item.updated, date.today())
            if heading != self._heading:
                self._heading = heading
                options.append(Option(f" {heading}", disabled=True))
            self._listed[item.id] = item
            options.append(Option(self._row(item), id=item.id))
        self.add_options(options)
        self._asked = None

    def _row(self, item: Conversation) -> Content:
        mark = "▎" if item.id == self.current_id else " "
        return Content(mark + (one_line(item.title) or UNTITLED)).truncate(_ROW_CELLS, ellipsis=True)

    @property
    def highlighted_id(self) -> str | None:
        return None if self.highlighted is None else self.get_option_at_index(self.highlighted).id

    def mark(self, conversation_id: str | None) -> None:
        """Highlight a conversation, if it is listed."""
        self.highlighted = self.get_option_index(conversation_id) if conversation_id in self._listed else None

    def set_current(self, conversation_id: str | None) -> None:
        """Mark the one that is open."""
        old, self.current_id = self.current_id, conversation_id
        for key in (old, conversation_id):
            if key in self._listed:
                self.replace_option_prompt(key, self._row(self._listed[key]))
        self.mark(conversation_id)

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if new > old and self.max_scroll_y - new <= _NEAR:
            self._ask_for_more()

    @on(OptionList.OptionHighlighted)
    def _near_end(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index >= self.option_count - _NEAR:
            self._ask_for_more()

    def _ask_for_more(self) -> None:
        if not self._listed or self._is_complete or len(self._listed) < PAGE:
            return
        last = next(reversed(self._listed.values()))
        if self._asked != (last.updated, last.id):
            self._asked = last.updated, last.id
            self.post_message(self.NextPage(self._asked))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Opened(event.option_id))

    def action_ask(self, action: str) -> None:
        if self.highlighted_id is not None:
            self.post_message(self.ActionRequested(action, self.highlighted_id))


class Sidebar(Vertical):
    """Search field, list, and buttons for what the keys do. `query_text` is what was searched for last."""

    query_text: reactive[str] = reactive("")

    @dataclass
    class Searched(Message):
        """The user looks for conversations with these words; empty for all."""

        query: str

    class NewRequested(Message):
        """The user wants a new conversation."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._pause: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Input(placeholder="Search  F3", id="search", compact=True)
        yield ConversationList(id="conversations")
        yield Static("", id="no-conversations", markup=False)
        yield _Buttons(id="sidebar-buttons")

    @property
    def list(self) -> ConversationList:
        return self.query_one(ConversationList)

    def show_page(self, page: Sequence[Conversation], *, first: bool) -> None:
        """Show a page of the answer to the current search."""
        listing = self.list
        listing.start(page) if first else listing.extend(page)
        note = self.query_one("#no-conversations", Static)
        note.display = not listing.conversations
        note.update("Nothing found." if self.query_text else "Your conversations will be listed here.")
        listing.display = not note.display

    @on(Input.Changed, "#search")
    def _search_soon(self, event: Input.Changed) -> None:
        event.stop()
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(_SEARCH_PAUSE, self._search)

    def _search(self) -> None:
        text = self.query_one("#search", Input).value.strip()
        if text != self.query_text:
            self.query_text = text
            self.post_message(self.Searched(text))

    @on(Input.Submitted, "#search")
    def _to_list(self, event: Input.Submitted) -> None:
        event.stop()
        self._search()
        self.list.focus()
        if self.list.highlighted is None:
            self.list.action_first()

    def on_key(self, event: events.Key) -> None:
        search = self.query_one("#search", Input)
        if event.key == "down" and search.has_focus:
            event.stop()
            self.list.focus()
        elif event.key == "escape" and search.value:
            event.stop()
            search.value = ""


class _Buttons(Static):
    """The row below the list, for the mouse."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__("[@click=new]new[/]  [@click=ask('rename')]rename[/]  [@click=ask('delete')]delete[/]", id=id)

    def action_new(self) -> None:
        self.post_message(Sidebar.NewRequested())

    def action_ask(self, action: str) -> None:
        self.query_ancestor(Sidebar).list.action_ask(action)


def heading_for(updated: str, today: date) -> str:
    """The heading for a time (ISO, UTC) in the user's own time zone."""
    day = datetime.fromisoformat(updated).astimezone().date()
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "This week"
    return day.strftime("%B %Y") if day.year != today.year else day.strftime("%B")
