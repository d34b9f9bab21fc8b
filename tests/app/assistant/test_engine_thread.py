"""The engine's thread as a screen uses it: commands in, events out, whatever goes wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from octavo.app.assistant.assistant import Assistant
from octavo.app.assistant.chat import AnswerDone, AnswerStarted, AnswerText, UserSaved
from octavo.app.assistant.engine_events import (
    EngineCrashed,
    ModelFailed,
    ModelLoading,
    ModelReady,
    PagesForgotten,
    ProblemsFound,
    Status,
    TurnFailed,
)
from octavo.app.assistant.engine_thread import EngineThread
from octavo.app.assistant.forgetting import Forgotten, delete_conversation, noted
from octavo.app.settings import Settings, load_settings
from octavo.storage.conversations import Conversations
from octavo.storage.pages import open_store
from octavo.storage.paths import Paths

E = TypeVar("E")
PATIENCE_S = 20.0


class Screen:
    """Keeps every event, and waits for one. An event of a kind in `faults` makes it raise, once."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.faults: set[type] = set()
        self._changed = threading.Condition()
        self._seen = 0

    def __call__(self, event: Any) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()
        if type(event) in self.faults:
            self.faults.remove(type(event))
            raise ValueError("no such widget")

    def wait(self, kind: type[E], when: Callable[[E], bool] = lambda event: True) -> E:
        """The next event of a kind after those waited for before."""
        with self._changed:
            while True:
                for place, event in enumerate(self.events[self._seen :], start=self._seen):
                    if isinstance(event, kind) and when(event):
                        self._seen = place + 1
                        return event
                assert self._changed.wait(PATIENCE_S), f"no {kind.__name__} came: {self.events}"

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class Loader:
    """Opens the fake assistant when it is allowed to."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant
        self.allowed = threading.Event()
        self.allowed.set()
        self.names: list[str] = []
        self.error: Exception | None = None
        self.before: Callable[[], None] = lambda: None

    def __call__(self, model: Any, settings: Settings, paths: Paths) -> Assistant:
        self.names.append(model.name)
        self.before()
        assert self.allowed.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return self.assistant


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def loader(assistant: Assistant) -> Loader:
    return Loader(assistant)


@pytest.fixture
def model_file(octavo_home: Path) -> Path:
    path = octavo_home.parent / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def conversation_id(conversations: Conversations) -> str:
    return conversations.create().id


@pytest.fixture
def thread(screen: Screen, loader: Loader, conversations: Conversations, model_file: Path) -> Iterator[EngineThread]:
    """A running thread whose model is a file that only the fake loader opens."""
    settings = load_settings({"model": str(model_file), "generation": {"max_tokens": 100}})
    thread = EngineThread(conversations, screen, settings=settings, paths=Paths.from_environment(), load=loader)
    thread.start()
    yield thread
    loader.allowed.set()
    assert thread.close(PATIENCE_S)


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, octavo.app.assistant.engine_thread; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_loads_answers_and_tells_its_figures(
    thread: EngineThread, screen: Screen, conversations: Conversations, conversation_id: str
) -> None:
    thread.load()
    ready = screen.wait(ModelReady)
    assert (ready.name, ready.context) == ("model", 4096)
    idle = screen.wait(Status)
    assert idle == Status(False, 0, 4096, 0.0)
    thread.turn(conversation_id, "Hello")
    done = screen.wait(AnswerDone)
    assert done.message.text == "A fine answer."
    after = screen.wait(Status, lambda status: not status.busy)
    assert after.tokens_used == done.message.record["usage"]["prompt_tokens"] + 14
    assert (after.tokens_limit, after.tokens_per_s) == (4096, 100.0)
    kinds = [kind for kind in dict.fromkeys(screen.kinds()) if kind != "Status"]
    assert kinds == ["ModelLoading", "ModelReady", "UserSaved", "AnswerStarted", "AnswerText", "AnswerDone"]
    assert conversations.path(conversation_id)[-1] == done.message


def test_a_model_that_is_let_go_of_writes_down_its_pages_first(
    thread: EngineThread, loader: Loader, screen: Screen, engine: Any
) -> None:
    closed_at_load: list[bool] = []
    loader.before = lambda: closed_at_load.append(engine.closed)
    for _ in range(2):
        thread.load()
        screen.wait(ModelReady)
        screen.wait(Status)
    assert closed_at_load == [False, True]
    engine.closed = False
    assert thread.close(PATIENCE_S)
    assert engine.closed


def test_pages_are_forgotten_with_and_without_a_model(thread: EngineThread, screen: Screen, engine: Any) -> None:
    thread.forget("gone")
    assert screen.wait(PagesForgotten) == PagesForgotten("gone", Forgotten())
    assert engine.forgotten == []
    thread.load()
    thread.forget("gone too")
    assert screen.wait(PagesForgotten) == PagesForgotten("gone too", Forgotten(memory=400))
    assert engine.forgotten == ["gone too"]


def test_pages_are_forgotten_between_the_steps_of_an_answer(
    thread: EngineThread, screen: Screen, engine: Any, conversation_id: str
) -> None:
    slow(engine)
    thread.turn(conversation_id, "Hello")
    screen.wait(AnswerText)
    thread.forget("another")
    screen.wait(PagesForgotten)
    assert "AnswerDone" not in screen.kinds()
    thread.cancel()
    assert screen.wait(AnswerDone).message.text
    assert engine.forgotten == ["another"]


def test_what_could_not_be_forgotten_is_when_the_thread_starts_or_ends(
    screen: Screen, loader: Loader, conversations: Conversations, model_file: Path
) -> None:
    paths = Paths.from_environment()
    first, second = conversations.create().id, conversations.create().id
    settings = load_settings({"model": str(model_file)})
    with open_store(paths.pages_dir, 1 << 20):
        delete_conversation(conversations, paths, first)
        thread = EngineThread(conversations, screen, settings=settings, paths=paths, load=loader)
        thread.start()
        assert "Another process" in screen.wait(PagesForgotten).result.problem
        thread.load()
        screen.wait(ModelReady)
        assert noted(paths) == [first]
        delete_conversation(conversations, paths, second)
    assert thread.close(PATIENCE_S)
    assert noted(paths) == []
    assert [event.result for event in screen.events if isinstance(event, PagesForgotten)][1:] == [Forgotten()] * 2


def test_problems_are_told_once_each(thread: EngineThread, screen: Screen, engine: Any, conversation_id: str) -> None:
    engine.problems = ["The disk is full.", "The disk is full."]
    thread.load()
    assert screen.wait(ProblemsFound).sentences == ("The disk is full.",)
    engine.problems = ["The disk is full.", "A page could not be read."]
    thread.turn(conversation_id, "Hello")
    assert screen.wait(ProblemsFound).sentences == ("A page could not be read.",)
    thread.load()
    screen.wait(ModelReady)
    assert thread.close(PATIENCE_S)
    assert screen.kinds().count("ProblemsFound") == 2


def test_problems_of_the_store_and_of_its_closing_are_told(
    thread: EngineThread, screen: Screen, loader: Loader, engine: Any
) -> None:
    paths = Paths.from_environment()
    with open_store(paths.pages_dir, 1 << 20):
        loader.assistant.store = open_store(paths.pages_dir, 1 << 20)
        thread.load()
        (sentence,) = screen.wait(ProblemsFound).sentences
        assert sentence.startswith("Another process writes the page store ")
        engine.problems = []
        loader.before = lambda: setattr(engine, "problems", [])
        engine.close = lambda: engine.problems.append("The last page could not be written.")
        thread.load()
        assert screen.wait(ProblemsFound).sentences == ("The last page could not be written.",)


def test_the_budgets_come_with_the_model(thread: EngineThread, screen: Screen, loader: Loader) -> None:
    budgets = SimpleNamespace(notes=("vram auto: all of it.", "ram off."), device="cpu")
    loader.assistant.budgets = budgets  # type: ignore[assignment]
    thread.load()
    assert screen.wait(ModelReady).budgets == ("vram auto: all of it.", "ram off.")


def test_a_question_loads_the_model_if_nobody_did(thread: EngineThread, screen: Screen, conversation_id: str) -> None:
    thread.turn(conversation_id, "Hello")
    assert screen.wait(AnswerDone).message.status == "complete"
    assert screen.kinds()[:3] == ["UserSaved", "ModelLoading", "ModelReady"]


def test_questions_sent_while_the_model_loads_are_saved_at_once_and_answered_together(
    thread: EngineThread,
    screen: Screen,
    loader: Loader,
    engine: Any,
    conversations: Conversations,
    conversation_id: str,
) -> None:
    loader.allowed.clear()
    thread.load()
    screen.wait(ModelLoading)
    thread.turn(conversation_id, "First")
    thread.turn(conversation_id, "Second")
    screen.wait(UserSaved)
    second = screen.wait(UserSaved).message
    assert [message.text for message in conversations.path(conversation_id, second.id)] == ["First", "Second"]
    assert "ModelReady" not in screen.kinds()
    loader.allowed.set()
    assert screen.wait(AnswerDone).message.parent_id == second.id
    assert "First\n\nSecond" in "".join(map(chr, engine.prompts[0]))
    assert loader.names == ["model"]
    assert thread.close(PATIENCE_S)
    assert len(engine.prompts) == 1


def test_regenerate_and_edit_reach_the_conversation(
    thread: EngineThread, screen: Screen, conversations: Conversations, conversation_id: str
) -> None:
    thread.turn(conversation_id, "One")
    first = screen.wait(AnswerDone).message
    thread.regenerate(first.id)
    again = screen.wait(AnswerDone).message
    assert conversations.siblings(first.id) == [first.id, again.id]
    assert first.parent_id is not None
    thread.edit(first.parent_id, "Uno")
    screen.wait(AnswerDone)
    assert [message.text for message in conversations.path(conversation_id)] == ["Uno", "A fine answer."]
    assert screen.kinds().count("UserSaved") == 2


def slow(engine: Any) -> None:
    """An answer that takes its time: a hundredth of a second a token, for ten seconds."""
    engine.answer = "x" * 1000
    engine.before_step = lambda: time.sleep(0.01)


def test_cancel_ends_the_answer_within_a_step(
    thread: EngineThread, screen: Screen, engine: Any, conversation_id: str
) -> None:
    slow(engine)
    thread.turn(conversation_id, "Hello")
    screen.wait(AnswerText)
    thread.cancel()
    steps = engine.steps
    message = screen.wait(AnswerDone).message
    assert engine.steps <= steps + 2, "the step that ran, and the one that tells of the end"
    assert (message.status, set(message.text)) == ("cancelled", {"x"})
    assert screen.wait(Status, lambda status: not status.busy)
    assert engine.is_idle
    engine.answer = "Still here."
    thread.turn(conversation_id, "And now?")
    assert screen.wait(AnswerDone).message.text == "Still here."


def test_cancel_also_ends_what_waits_for_the_model(
    thread: EngineThread, screen: Screen, loader: Loader, engine: Any, conversation_id: str
) -> None:
    loader.allowed.clear()
    thread.load()
    thread.turn(conversation_id, "Hello")
    screen.wait(UserSaved)
    thread.cancel()
    loader.allowed.set()
    message = screen.wait(AnswerDone).message
    assert (message.text, message.status) == ("", "cancelled")


def crash_once(engine: Any, at: int) -> None:
    def crash() -> None:
        if engine.steps == at:
            raise RuntimeError("the engine is broken")

    engine.before_step = crash


def test_a_crash_of_the_engine_is_told_and_the_next_question_loads_anew(
    thread: EngineThread,
    screen: Screen,
    engine: Any,
    loader: Loader,
    conversations: Conversations,
    conversation_id: str,
) -> None:
    crash_once(engine, at=7)
    thread.turn(conversation_id, "Hello")
    done = screen.wait(AnswerDone)
    crashed = screen.wait(EngineCrashed)
    assert crashed.error == "RuntimeError: the engine is broken"
    assert "Traceback" in crashed.traceback
    assert (done.message.text, done.message.status) == ("A fine", "error")
    assert conversations.path(conversation_id)[-1] == done.message
    thread.turn(conversation_id, "Again")
    assert screen.wait(AnswerDone).message.text == "A fine answer."
    assert loader.names == ["model", "model"]


def test_a_failed_load_is_one_sentence_and_the_thread_goes_on(
    thread: EngineThread, screen: Screen, loader: Loader, conversations: Conversations, conversation_id: str
) -> None:
    loader.error = MemoryError("no room for 4 GB")
    thread.turn(conversation_id, "Hello")
    failed = screen.wait(ModelFailed)
    assert failed == ModelFailed("model", "model could not be loaded: MemoryError: no room for 4 GB.")
    question = conversations.path(conversation_id)[-1]
    assert (question.role, question.text) == ("user", "Hello")
    loader.error = None
    thread.load()
    screen.wait(ModelReady)
    thread.regenerate(question.id)
    assert screen.wait(AnswerDone).message.parent_id == question.id


def test_a_catalogue_model_that_is_not_here_is_not_fetched(
    thread: EngineThread, screen: Screen, loader: Loader, octavo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("octavo.app.models.resolve.ensure_model", None)
    thread.load("smollm2-135m")
    failed = screen.wait(ModelFailed)
    assert (failed.kind, failed.entry_id, failed.name) == ("missing", "smollm2-135m", "smollm2-135m")
    assert failed.error == (
        "SmolLM2-135M-Instruct (98.4 MB) is not on this machine yet; fetch it with `octavo models pull smollm2-135m`, "
        "or choose another model."
    )
    assert loader.names == []
    assert not (octavo_home / "data" / "models").exists()


def test_an_unknown_model_and_a_vanished_conversation_are_told(
    thread: EngineThread, screen: Screen, conversations: Conversations, conversation_id: str
) -> None:
    thread.load("no-such-model")
    failed = screen.wait(ModelFailed)
    assert failed.kind == "error"
    assert "no-such-model" in failed.error
    conversations.delete(conversation_id)
    thread.turn(conversation_id, "Hello")
    assert conversation_id in screen.wait(TurnFailed).error


def test_a_conversation_deleted_during_its_answer_ends_it(
    thread: EngineThread, screen: Screen, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    slow(engine)
    thread.turn(conversation_id, "Hello")
    screen.wait(AnswerText)
    conversations.delete(conversation_id)
    assert "deleted" in screen.wait(TurnFailed).error
    assert not screen.wait(Status, lambda status: not status.busy).busy
    engine.before_step = lambda: None
    thread.turn(conversations.create().id, "Hello")
    screen.wait(AnswerDone)


def test_a_screen_that_raises_does_not_end_the_thread(
    thread: EngineThread, screen: Screen, conversations: Conversations, conversation_id: str
) -> None:
    screen.faults = {AnswerStarted, EngineCrashed, Status, UserSaved}
    for text in ("One", "Two"):
        thread.turn(conversation_id, text)
        screen.wait(EngineCrashed)
    thread.turn(conversation_id, "Three")
    assert screen.wait(AnswerDone, lambda done: done.message.status == "complete")
    assert not screen.faults
    texts = [message.text for message in conversations.tree(conversation_id) if message.role == "user"]
    assert texts == ["One", "Two", "Three"]
    broken = [message for message in conversations.tree(conversation_id) if message.status != "complete"]
    assert [message.status for message in broken] == ["error"]
    assert broken[0].record["error"] == "ValueError: no such widget"


def test_closing_during_an_answer_keeps_it(
    thread: EngineThread, screen: Screen, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    slow(engine)
    thread.turn(conversation_id, "Hello")
    screen.wait(AnswerText)
    thread.turn(conversation_id, "Queued")
    started = time.monotonic()
    assert thread.close(PATIENCE_S)
    assert time.monotonic() - started < 2
    tree = {message.text: message.status for message in conversations.tree(conversation_id)}
    assert set(tree.values()) == {"complete", "cancelled"}
    assert "Queued" in tree
    assert thread.close()


def test_closing_while_a_model_loads_waits_no_longer_than_told(
    thread: EngineThread, screen: Screen, loader: Loader, conversations: Conversations, conversation_id: str
) -> None:
    loader.allowed.clear()
    thread.turn(conversation_id, "Hello")
    screen.wait(ModelLoading)
    assert not thread.close(timeout=0.1)
    loader.allowed.set()
    assert thread.close(PATIENCE_S)
    assert "EngineCrashed" not in screen.kinds()
    assert [message.status for message in conversations.tree(conversation_id)][:1] == ["complete"]
    assert conversations.mark_interrupted() == 0


def test_a_thread_that_never_started_closes(conversations: Conversations, screen: Screen, settings: Settings) -> None:
    thread = EngineThread(conversations, screen, settings=settings, paths=Paths.from_environment())
    assert thread.close()


def test_a_broken_file_is_named(conversations: Conversations, screen: Screen, model_file: Path) -> None:
    """With the real loader."""
    settings = load_settings({"model": str(model_file)})
    thread = EngineThread(conversations, screen, settings=settings, paths=Paths.from_environment())
    thread.start()
    thread.load()
    failed = screen.wait(ModelFailed)
    assert str(model_file) in failed.error
    assert thread.close(PATIENCE_S)
