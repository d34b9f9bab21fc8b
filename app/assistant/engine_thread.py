"""The one thread that owns torch: commands go in through a queue, events come out through a callback.

A second, small thread saves questions while the first is busy, so that what a person sent during the seconds a model
takes to load is in the database at once. Importing this module does not import torch.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from octavo.app.assistant.assistant import open_model
from octavo.app.assistant.chat import LEAF, Chat, ChatEvent, UserSaved, question_of, save_edit, save_question
from octavo.app.assistant.engine_commands import AnswerQuestion, Ask, Attend, ForgetPages, LoadModel, is_joined
from octavo.app.assistant.engine_events import (
    EngineEvent,
    ModelFailed,
    ModelLoading,
    ModelReady,
    PagesForgotten,
    ProblemsFound,
    failure,
    missing,
)
from octavo.app.assistant.forgetting import Forgotten, forget, forget_noted, store_problems
from octavo.app.assistant.gauge import Gauge
from octavo.app.assistant.watch import Watch
from octavo.app.documents.background import BackgroundReader
from octavo.app.errors import AppError
from octavo.engine.errors import EngineError
from octavo.storage.errors import StorageError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.documents.shelf import Shelf
    from octavo.app.memory.service import ChatMemory
    from octavo.app.models.resolve import ResolvedModel
    from octavo.app.settings import Settings
    from octavo.storage.conversations import Conversations, StoredMessage
    from octavo.storage.paths import Paths

Load = Callable[["ResolvedModel", "Settings", "Paths"], "Assistant"]


class EngineThread:
    """Loads models and answers questions, one command after the other. Every command returns at once.

    A question sent before the one above it had begun to be answered joins it: one answer is given to both. `on_event`
    is called from this object's threads; it must return soon and not raise. After every command that concerns the
    engine comes a Status that is not busy. `load` opens a model that is on this machine; nothing is downloaded here.
    """

    def __init__(
        self,
        conversations: Conversations,
        on_event: Callable[[EngineEvent], None],
        *,
        settings: Settings,
        paths: Paths,
        load: Load | None = None,
        memory: ChatMemory | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self._conversations = conversations
        self._emit = on_event
        self._settings = settings
        self._paths = paths
        self._open = load or open_model
        self._memory = memory
        self.reader = BackgroundReader(shelf, on_event, self._nudge)
        self._intake: SimpleQueue[LoadModel | Ask | ForgetPages | None] = SimpleQueue()
        self._work: SimpleQueue[LoadModel | AnswerQuestion | ForgetPages | Attend | None] = SimpleQueue()
        self._unwanted: SimpleQueue[str] = SimpleQueue()
        self._told: set[str] = set()  # problems
        self._asked: set[Ask] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._is_nudged = threading.Event()
        self.watch = Watch(on_event, self._nudge, idle_s=60.0 * settings.idle_minutes)
        self._threads = [
            threading.Thread(target=self._save_questions, name="octavo-intake", daemon=True),
            threading.Thread(target=self._run, name="octavo-engine", daemon=True),
        ]
        self._model: str | None = None
        self._chat: Chat | None = None
        self._has_loaded = False
        self._gauge = Gauge()

    def start(self) -> None:
        """Start the threads; commands given before wait."""
        for thread in self._threads:
            thread.start()

    def load(self, model: str | None = None) -> None:
        """Load a model by name or path, or the one the settings name; the one before is let go first."""
        self._intake.put(LoadModel(model))

    def turn(self, conversation_id: str, text: str, *, parent_id: str | None = LEAF, system: str | None = None) -> None:
        """Save a question and answer it; see `save_question`."""
        self._ask(lambda: save_question(self._conversations, conversation_id, text, parent_id, system), is_new=True)

    def edit(self, message_id: str, text: str) -> None:
        """Ask a question in other words, as a branch beside it."""
        self._ask(lambda: save_edit(self._conversations, message_id, text), is_new=True)

    def regenerate(self, message_id: str) -> None:
        """Answer a question once more; `message_id` is the question or one of its answers."""
        self._ask(lambda: question_of(self._conversations, message_id), is_new=False)

    def forget(self, conversation_id: str) -> None:
        """Drop the pages of a conversation that `delete_conversation` deleted, also while an answer runs."""
        self._unwanted.put(conversation_id)
        self._intake.put(ForgetPages())

    def cancel(self) -> None:
        """End the answer that runs, within one step of the engine, and those that wait. What came is kept."""
        with self._lock:
            for ask in self._asked:
                ask.cancelled.set()

    def close(self, timeout: float = 10.0) -> bool:
        """End the answer that runs, and the threads.

        False if they are still busy after `timeout` seconds, as with the loading of a large model.
        """
        self._closing.set()
        self.cancel()
        self._intake.put(None)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _ask(self, question: Callable[[], StoredMessage], *, is_new: bool) -> None:
        ask = Ask(question, is_new)
        with self._lock:
            self._asked.add(ask)
        self._intake.put(ask)

    def _save_questions(self) -> None:
        """The first thread: save each question when it comes, and pass everything on in order."""
        while (command := self._intake.get()) is not None:
            if not isinstance(command, Ask):
                self._work.put(command)
                continue
            try:
                question = command.question()
                if command.is_new:
                    self._emit(UserSaved(question))
                self._work.put(AnswerQuestion(command, question))
            except Exception as error:
                self._settle(command)
                self._report(error)
        self._work.put(None)

    def _run(self) -> None:
        """The second thread: everything that touches torch."""
        forget_noted(self._paths, self._tell_forgotten)
        while (command := self._next()) is not None:
            if self._closing.is_set():
                continue
            try:
                if isinstance(command, Attend):
                    self._is_nudged.clear()
                    self.watch.attend(self._chat, idle=True)
                    continue
                if isinstance(command, LoadModel):
                    self._load(command.model)
                elif isinstance(command, AnswerQuestion):
                    self._answer(command)
                else:
                    self._forget_unwanted()
            except Exception as error:
                self._report(error)
            with suppress(Exception):
                self._emit(self._gauge.status(self._assistant, busy=False))
                self._tell_problems(self._assistant.take_problems() if self._assistant else ())
                self.watch.attend(self._chat, idle=True)
        self._let_go()
        forget_noted(self._paths, self._tell_forgotten)

    def _next(self) -> LoadModel | AnswerQuestion | ForgetPages | Attend | None:
        """The next command, or what is due when none comes for a while."""
        self.reader.work(self._assistant, self._work.empty)
        try:
            return self._work.get(timeout=self.watch.patience(self._chat))
        except Empty:
            return Attend()

    def _nudge(self) -> None:
        """Let the thread attend to what was asked of `watch`, if it has nothing else to do."""
        if not self._is_nudged.is_set():
            self._is_nudged.set()
            self._work.put(Attend())

    def _answer(self, command: AnswerQuestion) -> None:
        try:
            if self._chat is None:
                self._load(self._model)
            if self._chat is None or is_joined(self._conversations, command):
                return
            self.reader.pause(self._assistant)
            self.watch.asked(command.question.conversation_id)
            events = self._chat.answer(command.question, is_cancelled=lambda: self._between_steps(command.ask))
            with closing(events):
                for event in events:
                    try:
                        self._tell(event, self._chat.assistant)
                    except Exception as error:
                        self._emit(events.throw(error))  # the answer is kept as one that broke off, not as stopped
                        raise
        except Exception as error:
            if not isinstance(error, (AppError, EngineError, StorageError)):
                self._let_go()  # whatever state the engine is in, nothing more is asked of it
            raise
        finally:
            self._settle(command.ask)

    def _tell(self, event: ChatEvent, assistant: Assistant) -> None:
        self._emit(event)
        if self._gauge.follow(event):
            self._emit(self._gauge.status(assistant, busy=True))
            self._tell_problems(assistant.take_problems())

    def _tell_problems(self, problems: Iterable[str]) -> None:
        new = tuple(problem for problem in dict.fromkeys(problems) if problem not in self._told)
        if new:
            self._told.update(new)
            self._emit(ProblemsFound(new))

    def _between_steps(self, ask: Ask) -> bool:
        """What is done while an answer runs, once a step of its engine; true if the answer is to end."""
        self._forget_unwanted()
        self.watch.attend(self._chat)
        return ask.cancelled.is_set()

    def _forget_unwanted(self) -> None:
        while not self._unwanted.empty():
            conversation_id = self._unwanted.get()
            self._tell_forgotten(conversation_id, forget(self._paths, conversation_id, self._assistant))

    def _tell_forgotten(self, owner: str, result: Forgotten) -> None:
        self._emit(PagesForgotten(owner, result))

    def _load(self, model: str | None) -> None:
        from octavo.app.models.resolve import resolve_model

        self._model = model
        self._let_go()
        if self._has_loaded:
            gc.unfreeze()  # the screen hides from the collector what was loaded by then
            gc.collect()  # two models at once may be more than the memory holds; the screen waits for this
        self._has_loaded = True
        started, name = time.perf_counter(), model or ""
        try:
            found = resolve_model(model, self._settings, self._paths)
            name = found.name
            if not found.present and found.entry is not None:
                self._emit(ModelFailed(name, missing(found), "missing", found.entry.id))
                return
            self._emit(ModelLoading(name))
            assistant = self._open(found, self._settings, self._paths)
        except (AppError, EngineError, StorageError) as error:
            self._emit(ModelFailed(name, str(error)))
            return
        except Exception as error:
            self._emit(ModelFailed(name, f"{name} could not be loaded: {type(error).__name__}: {error}."))
            return
        self._chat = Chat(assistant, self._conversations, self._settings, name, self._memory, self.reader.shelf)
        budgets = assistant.budgets.notes if assistant.budgets is not None else ()
        self._emit(ModelReady(name, assistant.engine.max_context, time.perf_counter() - started, budgets))
        if assistant.store is not None:
            self._tell_problems(store_problems(assistant.store))

    @property
    def _assistant(self) -> Assistant | None:
        return self._chat.assistant if self._chat is not None else None

    def _let_go(self) -> None:
        """Close the model that is loaded, if there is one; its pages are written down, so this may take a moment."""
        self.reader.pause(self._assistant)
        assistant, self._chat, self._gauge = self._assistant, None, Gauge()
        self.watch.let_go()
        if assistant is not None:
            with suppress(Exception):
                assistant.close()
            with suppress(Exception):
                self._tell_problems(assistant.take_problems())

    def _settle(self, ask: Ask) -> None:
        with self._lock:
            self._asked.discard(ask)

    def _report(self, error: Exception) -> None:
        """Tell of an error that ended a command; the thread goes on, even if nobody can be told."""
        with suppress(Exception):
            self._emit(failure(error))
