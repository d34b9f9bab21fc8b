"""The screen with real storage and an engine whose words the test decides."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from octavo.app.assistant.budget import LeftOut
from octavo.app.assistant.chat import (
    AnswerDone,
    AnswerStarted,
    AnswerText,
    UserSaved,
    question_of,
    save_edit,
    save_question,
)
from octavo.app.assistant.engine_events import EngineCrashed, ModelLoading, ModelReady, PagesForgotten, Status
from octavo.app.assistant.forgetting import Forgotten
from octavo.app.assistant.probe import Probe, SystemFigures
from octavo.app.assistant.watch import Watch
from octavo.app.documents.background import BackgroundReader
from octavo.app.documents.index_thread import IndexThread
from octavo.app.documents.shelf import Shelf
from octavo.app.settings import Settings
from octavo.app.tui.app import OctavoApp
from octavo.app.tui.backend import Backend
from octavo.app.tui.collector import spare_the_screen
from octavo.app.tui.screens.chat import ChatScreen
from octavo.storage.attachments import Attachments
from octavo.storage.conversations import Conversations, StoredMessage
from octavo.storage.database import Database, open_database
from octavo.storage.paths import Paths

MB = 10**6
MODEL = "fake-model"
BUDGETS = ("vram auto: 1.24 GB hold [all] of it.", "ram off.", "disk auto: up to 64 GB.")


class FakeEngine:
    """Answers from a thread of its own, as EngineThread does.

    `answers` holds what is said next, in chunks; without any the answer is "Fine.". While `hold` is set, an answer
    waits before its last chunk for `release()` or a cancel. `crash` raises after the first chunk.
    """

    def __init__(self, conversations: Conversations, emit: Callable[[Any], None]) -> None:
        self.conversations, self.emit = conversations, emit
        self.answers: deque[Sequence[str]] = deque()
        self.left_out: tuple[LeftOut, ...] = ()
        self.usage: dict[str, Any] = {}
        self.forgotten = Forgotten()
        self.hold = self.crash = False
        self.watch = Watch(emit)
        self.reader = BackgroundReader(None, emit, lambda: None)
        self.calls: list[tuple[str, ...]] = []
        self.is_idle = threading.Event()
        self.is_idle.set()
        self._released, self._cancelled = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None: ...

    def load(self, model: str | None = None) -> None:
        self.calls.append(("load", model or ""))
        self.emit(ModelLoading(model or MODEL))
        self.emit(ModelReady(model or MODEL, 1_000, 0.1, BUDGETS))

    def turn(self, conversation_id: str, text: str, *, system: str | None = None) -> None:
        self.calls.append(("turn", conversation_id, text))
        self._begin(lambda: save_question(self.conversations, conversation_id, text, system=system), is_new=True)

    def edit(self, message_id: str, text: str) -> None:
        self.calls.append(("edit", message_id, text))
        self._begin(lambda: save_edit(self.conversations, message_id, text), is_new=True)

    def regenerate(self, message_id: str) -> None:
        self.calls.append(("regenerate", message_id))
        self._begin(lambda: question_of(self.conversations, message_id), is_new=False)

    def forget(self, conversation_id: str) -> None:
        self.calls.append(("forget", conversation_id))
        self.emit(PagesForgotten(conversation_id, self.forgotten))

    def cancel(self) -> None:
        self.calls.append(("cancel",))
        self._cancelled.set()
        self._released.set()

    def release(self) -> None:
        self._released.set()

    def close(self, timeout: float = 10.0) -> bool:
        self.cancel()
        for thread in self._threads:
            thread.join(timeout)
        return True

    def _begin(self, question: Callable[[], StoredMessage], *, is_new: bool) -> None:
        self._cancelled.clear()
        self._released.clear()
        self.is_idle.clear()
        thread = threading.Thread(target=self._answer, args=(question, is_new))
        self._threads.append(thread)
        thread.start()

    def _answer(self, find: Callable[[], StoredMessage], is_new: bool) -> None:
        question = find()
        if is_new:
            self.emit(UserSaved(question))
        chunks = list(self.answers.popleft() if self.answers else ["Fine."])
        row = self.conversations.add_message(
            question.conversation_id, question.id, "assistant", "", status="streaming", model=MODEL
        )
        self.emit(AnswerStarted(row, self.left_out, 100, 1_000))
        said = ""
        for place, chunk in enumerate(chunks):
            if self.hold and place == len(chunks) - 1:
                self._released.wait(10)
            if self._cancelled.is_set():
                break
            said += chunk
            self.emit(AnswerText(row.id, chunk, place + 1))
            if self.crash:
                self._end(row, said, "error")
                self.emit(EngineCrashed("ValueError: torn", "Traceback ..."))
                return
        self._end(row, said, "cancelled" if self._cancelled.is_set() else "complete")

    def _end(self, row: StoredMessage, text: str, status: Any) -> None:
        record = {
            "usage": {"prompt_tokens": 100, "generated_tokens": 7, **self.usage},
            "timings": {"tokens_per_s": 12.5, "ttft_s": 0.25},
            "finish_reason": "stop",
        }
        self.conversations.update_message(row.id, text=text, token_ids=(), status=status, record=record)
        self.is_idle.set()
        if not self.crash:
            self.emit(AnswerDone(replace(row, text=text, status=status, record=record), None))
            self.emit(Status(False, 107, 1_000, 12.5))


@dataclass
class Running:
    """The running screen, as a test sees it."""

    pilot: Pilot[None]
    app: OctavoApp
    engine: FakeEngine
    conversations: Conversations
    copied: list[str] = field(default_factory=list)

    @property
    def screen(self) -> ChatScreen:
        return self.app.chat

    async def wait(self, condition: Callable[[], object], what: str = "") -> None:
        """Let the screen run until something is so."""
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            await self.pilot.pause(0.01)
            if condition():
                return
        raise AssertionError(f"it never came: {what or condition}")

    async def send(self, text: str, *, until_done: bool = True) -> None:
        """Type into the input and press Enter."""
        self.screen.prompt.focus()
        self.screen.prompt.insert(text)
        await self.pilot.press("enter")
        if until_done:
            await self.wait(lambda: self.engine.is_idle.is_set() and not self.screen.is_busy, "the answer")
            await self.settle()

    async def settle(self) -> None:
        """Until no worker runs and everything is painted."""
        for _ in range(2):
            with suppress(WorkerCancelled):  # by a newer one of its group
                await self.app.workers.wait_for_complete()
            await self.pilot.pause()

    def rows(self) -> list[str]:
        """What is on the terminal, row by row."""
        height = self.app.size.height
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips[:height]]

    def text(self) -> str:
        return "\n".join(self.rows())


SYSTEM = SystemFigures(912 * MB, 300 * MB, 700 * MB, 950 * MB, 16_000 * MB, 9_000 * MB, 500_000 * MB, 200_000 * MB)


@pytest.fixture(autouse=True)
def _same_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gauge shows the same on every machine."""
    monkeypatch.setattr(Probe, "measure", lambda self: SYSTEM)
    monkeypatch.setattr(Probe, "wants_pss", False)


@pytest.fixture(scope="session", autouse=True)
def _few_collections() -> Iterator[None]:
    """The collector set as in the real program, once for all tests: it took a third of their time."""
    thresholds = gc.get_threshold()
    spare_the_screen()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


Start = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def database(octavo_home: Path) -> Iterator[Database]:
    database = open_database(Paths.from_environment().database_file)
    yield database
    database.close()


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)


@pytest.fixture
def fake_engine(conversations: Conversations) -> Callable[[Callable[[Any], None]], FakeEngine]:
    """fake_engine(emit) -> an engine whose words the test decides."""
    return lambda emit: FakeEngine(conversations, emit)


@pytest.fixture
def start(conversations: Conversations, octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """start(size=(100, 30)) runs the screen until the end of the `async with`."""
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("TMUX", raising=False)

    @asynccontextmanager
    async def run(size: tuple[int, int] = (100, 30), prepare: Callable[[FakeEngine], object] | None = None) -> Any:
        engines: list[FakeEngine] = []

        def open_backend(on_event: Callable[[Any], None]) -> Backend:
            engines.append(FakeEngine(conversations, on_event))
            if prepare is not None:
                prepare(engines[0])
            paths = Paths.from_environment()
            shelf = Shelf(paths, Settings(embedder="off"), Attachments(conversations.database))
            index = IndexThread(shelf, on_event)
            return Backend(paths, Settings(), conversations, engines[0], MODEL, lambda: None, shelf=shelf, index=index)

        app = OctavoApp(open_backend, Paths.from_environment().state)
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                running = Running(pilot, app, None, conversations)  # type: ignore[arg-type]
                await running.wait(lambda: app.chat.backend is not None, "the backend")
                running.engine = engines[0]
                monkeypatch.setattr(app, "copy_to_clipboard", running.copied.append)
                await running.settle()
                yield running
        finally:
            app.close_backend()

    return run


@pytest.fixture
def long_conversation(conversations: Conversations, database: Database) -> Callable[[int], str]:
    """long_conversation(n) -> the id of a conversation of n messages."""

    def make(number: int) -> str:
        conversation = conversations.create("A long one")
        parent = None
        with database.atomic():
            for place in range(number):
                role: Any = "assistant" if place % 2 else "user"
                text = f"Message {place}: **bold** text of some length, with `code` and [brackets].\n\n- one\n- two\n"
                parent = conversations.add_message(conversation.id, parent, role, text, model=MODEL).id
        return conversation.id

    return make
