"""Turns of a conversation that documents are open in: every one is answered from them, or refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from octavo.app.assistant import history
from octavo.app.assistant.assistant import TextEvent
from octavo.app.assistant.budget import LeftOut, Turn
from octavo.app.documents.answer import DocumentAnswer, Prepared
from octavo.app.documents.asking import Asker, Question
from octavo.app.documents.prompt import unmarked

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.documents.shelf import Shelf
    from octavo.app.settings import Settings
    from octavo.storage.conversations import StoredMessage

RECORD = "documents"  # key in an answer's record


class DocumentTurns:
    """Asks one model about what the `shelf` has open; used from the thread that owns the engine."""

    def __init__(self, assistant: Assistant, shelf: Shelf, settings: Settings) -> None:
        self._assistant = assistant
        self._shelf = shelf
        self._settings = settings

    def question(self, path: Sequence[StoredMessage]) -> DocumentQuestion | None:
        """The question `path` ends with, if documents are open in its conversation. Raises StorageError."""
        attached, among = self._shelf.askable(path[-1].conversation_id)
        if not attached.paths:
            return None
        return DocumentQuestion(self._assistant, self._shelf, self._settings, path, attached.mode, among)


class DocumentQuestion:
    """One question with the turns before it and the documents to answer it from."""

    def __init__(
        self,
        assistant: Assistant,
        shelf: Shelf,
        settings: Settings,
        path: Sequence[StoredMessage],
        mode: Any,
        among: Sequence[Any],
    ) -> None:
        documents = shelf.documents(make=True)
        assert documents is not None, "it is made"
        self._assistant = assistant
        self._asker = Asker(
            assistant,
            documents,
            settings.generation.policy(),
            embedder=shelf.embedder() if among else None,
            entailment=shelf.entailment() if among else None,
        )
        turns = history.turns_of(path)
        self._turns = turns
        self._first = history.first_kept(turns, self._asker.budget)
        self._sent = [turn for turn in turns[self._first :] if not turn.refused]
        system = history.system_of(path, settings.system)
        before = tuple(map(_as_read, self._sent[:-1]))
        self._question = Question(path[-1].text, among, mode, before, path[-1].conversation_id, system)

    def events(self, is_cancelled: Callable[[], bool]) -> Generator[Prepared | TextEvent | DocumentAnswer, None, None]:
        """As `Asker.events`."""
        with closing(self._asker.events(self._question, is_cancelled)) as events:
            yield from events

    @property
    def context(self) -> int:
        return self._asker.budget.context

    def left_out(self, prepared: Prepared) -> tuple[LeftOut, ...]:
        """Messages that the prompt was made without."""
        kept = {id(turn) for turn in self._sent[prepared.num_left :]}
        return tuple(
            LeftOut(message.id, self._count(message.text), _reason(turn))
            for turn in self._turns
            if id(turn) not in kept
            for message in turn.messages
        )

    def record(self, path: Sequence[StoredMessage], prepared: Prepared) -> dict[str, Any]:
        """What the answer's record says of the prompt."""
        kept_from = self._sent[prepared.num_left].messages[0].id
        return {
            "window": history.window_record(self._asker.budget, prepared.prompt_tokens, kept_from),
            "left_out": history.left_out_record(path, self.left_out(prepared)),
        }

    def _count(self, text: str) -> int:
        return len(self._assistant.tokenizer.encode(text))


def _reason(turn: history.StoredTurn) -> str:
    return history.REFUSED if turn.refused else history.CONTEXT_FULL


def _as_read(turn: history.StoredTurn) -> Turn:
    from octavo.engine.tokenizer import Message

    return Turn(tuple(Message(message.role, unmarked(message.text)) for message in turn.messages if message.text))
