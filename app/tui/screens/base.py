"""What the parts of the main screen share: its widgets by name, its state, and work in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from textual.screen import Screen
from textual.worker import get_current_worker

from octavo.app.tui.collector import spare_the_screen
from octavo.app.tui.messages import EngineNews, EventQueue, Failed, Finished
from octavo.app.tui.state import InputHistory
from octavo.app.tui.widgets.completions import Completions
from octavo.app.tui.widgets.gauge import GaugeBars
from octavo.app.tui.widgets.prompt_input import PromptInput
from octavo.app.tui.widgets.sidebar import Sidebar
from octavo.app.tui.widgets.status_line import StatusLine
from octavo.app.tui.widgets.top_bar import TopBar
from octavo.app.tui.widgets.transcript import Transcript
from octavo.app.tui.widgets.waiting import WaitingMessages

if TYPE_CHECKING:
    from octavo.app.assistant.reading import Context, Reading
    from octavo.app.tui.app import OctavoApp
    from octavo.app.tui.backend import Backend, OpenBackend
    from octavo.app.tui.gauge_feed import GaugeFeed
    from octavo.app.tui.screens.inspecting import InspectionScreen


class ScreenBase(Screen[None]):
    """State that more than one part needs. `backend` is None until it is open."""

    def __init__(self, open_backend: OpenBackend, history: InputHistory) -> None:
        super().__init__()
        self._open_backend = open_backend
        self._history = history
        self.backend: Backend | None = None
        self.events = EventQueue(lambda: self.post_message(EngineNews()))
        self.conversation_id: str | None = None
        self.is_busy = False  # an answer is asked for, and has not ended
        self.live_id: str | None = None  # the answer being written, in whichever conversation
        self.live_conversation: str | None = None
        self.live_text = ""
        self.answered: str | None = None  # the conversation whose answer began last
        self.editing_id: str | None = None
        self.new_system: str | None = None  # the system prompt for the conversation whose first message comes next
        self.budgets: tuple[str, ...] = ()  # of the model that is loaded, in sentences
        self.reading: Reading | None = None  # the gauge's last
        self._shown_with: tuple[Context, float]  # what the gauge showed beside it
        self.inspecting: InspectionScreen | None = None
        self._feed: GaugeFeed | None = None
        self._bars: list[GaugeBars] = []
        self.unsent = ""  # what was sent before the backend was open

    @property
    def is_current(self) -> bool:
        """Whether this can be seen. For Textual the screen below the top one always can, and whatever changes in it
        makes the top one paint all of itself.
        """
        top = self.app.screen
        return super().is_current and (top is self or top.styles.background.a < 1)

    def enter(self, conversation_id: str | None) -> None:
        """This conversation is on the screen from now on; its pages stay on the device."""
        self.conversation_id = conversation_id
        if self.backend is not None:
            self.backend.engine.watch.open(conversation_id)

    @property
    def is_unasked(self) -> bool:
        """True while the conversation on the screen has no message; it may have documents already."""
        return self.conversation_id is None or not self.transcript.parts

    def start_gauge(self) -> None:
        """Show what memory holds from now on; only once the backend is open."""
        from octavo.app.tui.gauge_feed import TICK_S, GaugeFeed

        assert self.backend is not None
        self._feed = GaugeFeed(self.backend.paths.pages_dir)
        self._bars, line = [self.query_one(GaugeBars)], self.status
        self.tick_gauge(line)
        self.set_interval(TICK_S, lambda: self.tick_gauge(line))

    def on_unmount(self) -> None:
        if self._feed is not None:
            self._feed.close()

    def also_show(self, bars: GaugeBars | None) -> None:
        """Show the gauge on another screen's bars, too; None is on this one's alone again."""
        self._bars = [*self._bars[:1], *([bars] if bars is not None else [])]
        if bars is not None and self.reading is not None:
            bars.show(self.reading, *self._shown_with)

    def tick_gauge(self, line: StatusLine) -> None:
        """Read everything, and show it wherever there is a gauge, if it has changed."""
        from octavo.app.assistant.reading import Context

        if self.backend is None or self._feed is None:
            return
        figures = line.figures
        context = Context(figures.used, figures.limit)
        reading = self._feed.read(self.backend.engine.watch.snapshot, context)
        if reading is not self.reading:
            self.reading, self._shown_with = reading, (context, figures.tokens_per_s)
            for bars in self._bars:
                bars.show(reading, *self._shown_with)

    @property
    def octavo(self) -> OctavoApp:
        """The program this screen belongs to."""
        return cast("OctavoApp", self.app)

    def in_thread(
        self,
        function: Callable[[], Any],
        then: Callable[[Any], Any] | None = None,
        otherwise: Callable[[Exception], Any] | None = None,
        *,
        group: str = "default",
    ) -> None:
        """Run something slow in a thread; what comes of it arrives as a message.

        In a group other than the default, a newer call makes the result of an older one void.
        """

        def run() -> None:
            try:
                result = function()
            except Exception as error:
                message: Finished | Failed = Failed(error, otherwise)
            else:
                message = Finished(then, result)
            if not get_current_worker().is_cancelled:
                self.post_message(message)

        self.run_worker(run, thread=True, exclusive=group != "default", group=group)

    async def on_finished(self, event: Finished) -> None:
        event.stop()
        if event.then is not None:
            await _call(event.then, event.result)

    async def on_failed(self, event: Failed) -> None:
        event.stop()
        await _call(event.otherwise or self.show_error, event.error)

    def spare_pauses(self) -> None:
        """Once much was imported or loaded; not in a test's process, which is not ours alone."""
        if not self.app.is_headless:
            spare_the_screen()

    def show_error(self, error: Exception) -> None:
        """Say what went wrong; errors of ours are sentences already."""
        from octavo.app.errors import AppError
        from octavo.engine.errors import EngineError
        from octavo.storage.errors import StorageError

        deliberate = isinstance(error, (AppError, EngineError, StorageError))
        self.tell(str(error) if deliberate else f"{type(error).__name__}: {error}", severity="error")

    def tell(self, text: str, *, severity: str = "information") -> None:
        """A notice in the corner. The text is never markup."""
        self.app.notify(text, severity=severity, markup=False, timeout=4 if severity == "information" else 8)  # type: ignore[arg-type]

    @property
    def prompt(self) -> PromptInput:
        return self.query_one("#prompt", PromptInput)

    @property
    def transcript(self) -> Transcript:
        return self.query_one("#transcript", Transcript)

    @property
    def sidebar(self) -> Sidebar:
        return self.query_one("#sidebar", Sidebar)

    @property
    def completions(self) -> Completions:
        return self.query_one("#completions", Completions)

    @property
    def waiting(self) -> WaitingMessages:
        return self.query_one("#waiting", WaitingMessages)

    @property
    def status(self) -> StatusLine:
        return self.query_one("#status", StatusLine)

    @property
    def top(self) -> TopBar:
        return self.query_one("#top", TopBar)


async def _call(function: Callable[[Any], Any], argument: Any) -> None:
    """Call a handler that may or may not be a coroutine."""
    result = function(argument)
    if hasattr(result, "__await__"):
        await result
