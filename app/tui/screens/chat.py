"""The main screen: conversations on the left, the transcript and the input on the right, the status below."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Static, TextArea

from octavo.app.tui import commands
from octavo.app.tui.screens.answering import joined
from octavo.app.tui.screens.commanding import Commanding
from octavo.app.tui.widgets.alarm_bar import AlarmBar
from octavo.app.tui.widgets.completions import Completions
from octavo.app.tui.widgets.documents_bar import DocumentsBar
from octavo.app.tui.widgets.entry import Entry
from octavo.app.tui.widgets.gauge import GaugeBars
from octavo.app.tui.widgets.prompt_input import PromptInput
from octavo.app.tui.widgets.sidebar import ConversationList, Sidebar
from octavo.app.tui.widgets.status_line import StatusLine
from octavo.app.tui.widgets.top_bar import TopBar
from octavo.app.tui.widgets.transcript import Transcript
from octavo.app.tui.widgets.waiting import WaitingMessages

if TYPE_CHECKING:
    from octavo.app.tui.backend import Backend

_FRAME = 1 / 20  # seconds; what the engine tells within one is shown together
_NARROW = 96  # columns below which the sidebar lies over the transcript
_SHORT = 30  # rows below which what stands above the input says less, or the transcript would vanish

GREETING = """\
O C T A V O

A local assistant. What you write stays on this machine.
Drop a document here, or /open one, and ask about it.

Enter sends · Ctrl+J new line · / commands
Ctrl+B conversations · Ctrl+P palette · F1 help"""


class ChatScreen(Commanding):
    """Lays the parts out and passes on what happens in them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", show=False),
        Binding("f1", "help", "Help"),
        Binding("question_mark", "help", show=False),
        Binding("f2", "inspect", "Inspect", show=False),
        Binding("f3", "search", "Search", show=False),
        Binding("f4", "models", "Model", show=False),
        Binding("f8", "rename", "Rename", show=False),
        Binding("f5", "documents", "Documents", show=False),
        Binding("f6", "alarms", "Alarms", show=False, priority=True),
        Binding("f7", "undo_memory", "Undo", show=False, priority=True),
        Binding("ctrl+n", "new", "New", show=False),
        Binding("ctrl+b", "toggle_sidebar", "Conversations", show=False),
        Binding("ctrl+r", "regenerate", "Again", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield TopBar(id="top")
        with Horizontal(id="middle"):
            yield Sidebar(id="sidebar")
            with Vertical(id="main"):
                yield Transcript(id="transcript")
                yield WaitingMessages(id="waiting")
                yield AlarmBar(id="alarm")
                yield DocumentsBar(id="documents")
                yield Completions(id="completions")
                yield Static("", id="mode", markup=False)
                yield PromptInput(self._history, id="prompt")
        yield GaugeBars(id="gauge")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        self.transcript.greet(GREETING)
        self.status.change(state="Starting…")
        self.sidebar.display = self.octavo.preferences.sidebar
        self.prompt.focus()
        # Everything slow waits for the first frame: importing and opening what is behind the screen.
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        self.in_thread(self._history.load)
        self.in_thread(lambda: self._open_backend(self.events.push), self._opened, self.octavo.fail)

    async def _opened(self, backend: Backend) -> None:
        self.backend = backend
        self.status.change(state="Ready", model=backend.model)
        self.spare_pauses()
        self.start_gauge()
        self.load_page()
        self.load_alarms()
        backend.engine.load()
        if backend.index is not None:
            backend.index.resume()
        if self.unsent:
            text, self.unsent = self.unsent, ""
            self.prompt.set_text(text)
            await self.send(text)

    async def on_engine_news(self) -> None:
        """Take what came. A burst is taken together: each change of the transcript costs a layout."""
        self.set_timer(_FRAME, self._take_news)

    async def _take_news(self) -> None:
        for event in joined(self.events.drain()):
            await self.engine_event(event)

    @on(TextArea.Changed, "#prompt")
    def _offer_commands(self) -> None:
        found = commands.completions(self.prompt.text) if self.editing_id is None else []
        self.completions.offer(found)
        self.prompt.is_completing = bool(found)

    @on(PromptInput.Completing)
    def _complete(self, event: PromptInput.Completing) -> None:
        if event.step:
            self.completions.step(event.step)
        elif (command := self.completions.current) is not None:
            self.prompt.set_text(f"/{command.name} ")

    @on(Completions.Taken)
    async def _take(self, event: Completions.Taken) -> None:
        await self.take_command(event.command)

    @on(PromptInput.Submitted)
    async def _submitted(self, event: PromptInput.Submitted) -> None:
        if (command := self.completions.current) is not None:
            await self.take_command(command)
        elif self.editing_id is None and commands.is_command(event.text):
            await self.run_command(event.text)
        else:
            await self.send(event.text)

    @on(AlarmBar.Decided)
    def _alarm_decided(self, event: AlarmBar.Decided) -> None:
        self.decide(event.alarm, event.choice)

    @on(WaitingMessages.TakeBack)
    def _take_back(self) -> None:
        self.take_back_waiting()

    @on(Entry.ActionRequested)
    async def _entry_action(self, event: Entry.ActionRequested) -> None:
        await self.entry_action(event.entry.part, event.action)

    @on(Transcript.Mounted)
    def _mounted(self, event: Transcript.Mounted) -> None:
        self.load_branches(event.message_ids)

    @on(ConversationList.Opened)
    def _open_conversation(self, event: ConversationList.Opened) -> None:
        self.open_conversation(event.conversation_id)
        if self.has_class("-narrow"):
            self.show_sidebar(False)

    @on(ConversationList.ActionRequested)
    def _list_action(self, event: ConversationList.ActionRequested) -> None:
        if event.action == "rename":
            self.ask_rename(event.conversation_id)
        else:
            self.ask_delete(event.conversation_id)

    @on(ConversationList.NextPage)
    def _next_page(self, event: ConversationList.NextPage) -> None:
        self.load_page(event.before)

    @on(Sidebar.Searched)
    def _searched(self) -> None:
        self.load_page()

    @on(Sidebar.NewRequested)
    async def _new(self) -> None:
        await self.action_new()

    @on(GaugeBars.Clicked)
    def _gauge_clicked(self) -> None:
        self.action_inspect()

    @on(StatusLine.ModelClicked)
    def _model_clicked(self) -> None:
        self.action_models()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < _SHORT, "-short")
        for bar in (self.waiting, self.alarm_bar):
            bar.refresh(layout=True)
        was_narrow = self.has_class("-narrow")
        self.set_class(event.size.width < _NARROW, "-narrow")
        if self.has_class("-narrow") != was_narrow:
            self.show_sidebar(was_narrow and self.octavo.preferences.sidebar)
