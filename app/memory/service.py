"""The memory as chats use it: what a question gets to see, what is read after an answer, and what is told of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from octavo.app.errors import AppError
from octavo.app.memory import injection
from octavo.app.memory.background import MemoryWorker
from octavo.app.memory.fence import used_of
from octavo.app.memory.keeper import Keeper, Outcome
from octavo.app.memory.meaning import Meaning
from octavo.app.memory.models import find_judge
from octavo.app.memory.recall import RECORD
from octavo.engine.errors import EngineError
from octavo.storage.errors import StorageError
from octavo.storage.summaries import Summaries

if TYPE_CHECKING:
    from octavo.storage.conversations import Conversations
    from octavo.storage.database import Database
    from octavo.storage.memory_records import Memory
    from octavo.storage.paths import Paths
    from octavo.storage.records import StoredMessage

Mode: TypeAlias = Literal["auto", "manual", "off"]


@dataclass(frozen=True, slots=True)
class MemoryNews:
    """What was written or found in a message of a conversation ("" for what the person had remembered by hand)."""

    conversation_id: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class MemoryFailed:
    """The memory could not do something; `error` is the sentence. No answer is lost for it."""

    error: str


@dataclass(frozen=True, slots=True)
class Used:
    """What a message was answered with: the memories that are still there, how many are not any more, the tokens of
    their block, and what was left out, reason by reason."""

    memories: tuple[Memory, ...]
    num_gone: int
    tokens: int
    left_out: tuple[tuple[str, int], ...]


class ChatMemory:
    """mode: "auto" reads the person's messages after each answer, "manual" keeps what the person says is to be kept,
    "off" neither keeps nor recalls. What left a conversation's window is summed up in every mode.

    `on_news` is called from the memory's own thread. Nothing slow is loaded before it is needed. Raises what the NLI
    model's folder raises if it cannot be used.
    """

    def __init__(
        self,
        database: Database,
        conversations: Conversations,
        paths: Paths,
        mode: Mode,
        on_news: Callable[[MemoryNews | MemoryFailed], None] = lambda news: None,
    ) -> None:
        self.mode = mode
        self._conversations = conversations
        self._emit = on_news
        self._meaning = Meaning(database, paths, pause=self._pause)
        self.keeper = Keeper(
            database, judge=find_judge(None, paths, database, pause=self._pause), nearest=self._meaning
        )
        self.memories = self.keeper.memories
        self._summaries = Summaries(database)
        self._worker = MemoryWorker(
            self.keeper,
            conversations,
            extracts=mode == "auto",
            on_outcomes=lambda conversation_id, outcomes: self._emit(MemoryNews(conversation_id, tuple(outcomes))),
            on_error=self._failed,
        )
        if mode == "auto":
            self._worker.catch_up()

    # What a prompt asks for

    def recall(self, question: StoredMessage, budget: int, count_tokens: Callable[[str], int]) -> StoredMessage:
        """The question with what is recalled for it in its record. Raises StorageError; other faults are told, and the
        question goes without."""
        if self.mode == "off":
            return question
        try:
            return injection.recall_for(
                self._conversations, self.memories, question, budget, count_tokens, nearest=self._meaning
            )[0]
        except StorageError:
            raise
        except Exception as error:
            self._emit(MemoryFailed(f"Nothing was recalled for this question: {_sentence(error)}"))
            return question

    def as_read(self, message: StoredMessage) -> str:
        """A message's text as the model reads it."""
        return injection.as_read(message, self.memories)

    def earlier(
        self,
        conversation_id: str,
        left: Sequence[StoredMessage],
        budget: int,
        count_tokens: Callable[[str], int],
    ) -> str:
        """What the messages that `left` the window come to, in at most `budget` tokens."""
        return injection.earlier(self._summaries, conversation_id, left, budget, count_tokens)

    @contextlib.contextmanager
    def giving_way(self, conversation_id: str) -> Iterator[None]:
        """An answer is given inside: nothing else is done meanwhile, and its conversation is read afterwards."""
        self._worker.answer_started()
        try:
            yield
        finally:
            self._worker.answer_ended(conversation_id)

    # What a screen asks for

    @property
    def checked_by(self) -> str:
        """Who checks what is said: "rules only", or "rules and" the model's name."""
        judge = self.keeper.judge
        return "rules only" if judge is None else f"rules and {judge.name}"

    @property
    def found_by(self) -> str:
        """How memories are found: "full text", or "full text and" the embedder's name."""
        return self._meaning.found_by

    def remember(self, text: str, otherwise: Callable[[Exception], object]) -> None:
        """Remember what the words state, as soon as no answer is being given; what comes of it is news.

        `otherwise` is called, from the memory's thread, with the error if nothing comes of it.
        """

        def job() -> None:
            try:
                if self.mode == "off":
                    raise AppError('Memory is off; the setting memory = "manual" or "auto" turns it on.')
                outcomes = self._added(text)
            except Exception as error:
                otherwise(error)
            else:
                self._emit(MemoryNews("", tuple(outcomes)))

        self._worker.submit(job)

    def used(self, message: StoredMessage) -> Used | None:
        """What a question was asked with, or an answer given with; None if nothing was recalled for it."""
        record = message.record.get(RECORD)
        if not record:
            return None
        found = used_of(self.memories, record)
        left_out = tuple(
            (reason, items if isinstance(items, int) else len(items)) for reason, items in record["left_out"].items()
        )
        there = tuple(memory for memory in found if memory is not None)
        return Used(there, len(found) - len(there), record["tokens"], left_out)

    def wait(self, timeout: float) -> bool:
        """True once everything that waited has been read or remembered."""
        return self._worker.wait(timeout)

    def close(self) -> None:
        """End the thread. What was not read yet is read at the next start."""
        self._worker.close()

    def _added(self, text: str) -> list[Outcome]:
        """What `Keeper.add` gives, by rules alone where the model turns out to be of no use."""
        try:
            return self.keeper.add(text)
        except EngineError as error:
            if self.keeper.judge is None:
                raise
            self._failed(error)
            return self.keeper.add(text)

    def _failed(self, error: Exception) -> None:
        sentence = _sentence(error)
        if isinstance(error, EngineError) and self.keeper.judge is not None:
            # The model is refused, not the message: it is read again after the next answer.
            self.keeper.judge = None
            sentence += " Until the next start statements are checked by rules only."
        self._emit(MemoryFailed(sentence))

    def _pause(self) -> None:
        self._worker.pause()


def _sentence(error: Exception) -> str:
    """Errors of ours are sentences already."""
    if isinstance(error, (AppError, EngineError, StorageError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
