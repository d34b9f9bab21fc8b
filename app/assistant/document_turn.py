"""Turns of a conversation that documents are open in: every one is answered from them, or refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from octavo.app.assistant import history
from octavo.app.assistant.assistant import TextEvent
from octavo.app.assistant.budget import LeftOut, Turn
from octavo.app.documents.answer import DocumentAnswer, Prepared, Retrying
from octavo.app.documents.asking import Asker, Question
from octavo.app.documents.prompt import unmarked
from octavo.app.documents.whole import WholeDocuments

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.documents.shelf import Shelf
    from octavo.app.settings import Settings
    from octavo.storage.conversations import StoredMessage

RECORD = "documents"  # key in an answer's record
UNCHECKED = "unchecked"  # key in it, true of a text whose citations were not checked: it is on its way, or broke off


class DocumentTurns:
    """Asks one model about what the `shelf` has open; used from the thread that owns the engine."""

    def __init__(self, assistant: Assistant, shelf: Shelf, settings: Settings) -> None:
        self._assistant = assistant
        self._shelf = shelf
        self._settings = settings
        self._wholes: WholeDocuments | None = None

    def question(self, path: Sequence[StoredMessage]) -> DocumentQuestion | None:
        """The question `path` ends with, if documents are open in its conversation. Raises StorageError."""
        attached, among = self._shelf.askable(path[-1].conversation_id)
        if not attached.paths:
            return None
        documents = self._shelf.documents() or self._shelf.documents(make=True)
        assert documents is not None, "it is made"
        if self._wholes is None or self._wholes.documents is not documents:
            self._wholes = WholeDocuments(self._assistant, documents)
        asker = Asker(
            self._assistant,
            documents,
            self._settings.generation.policy(),
            embedder=self._shelf.embedder() if among else None,
            reranker=self._shelf.reranker() if among else None,
            entailment=self._shelf.entailment() if among else None,
            wholes=self._wholes,
        )
        system = history.system_of(path, self._settings.system)
        return DocumentQuestion(
            asker, self._assistant, path, Question(path[-1].text, among, attached.mode, system=system)
        )


class DocumentQuestion:
    """The question that `path` ends with, and the turns before it."""

    def __init__(self, asker: Asker, assistant: Assistant, path: Sequence[StoredMessage], question: Question) -> None:
        self._asker = asker
        self._assistant = assistant
        self._turns = history.turns_of(path)
        first = history.first_kept(self._turns, asker.budget)
        self._sent = [turn for turn in self._turns[first:] if not turn.refused]
        before = tuple(map(_as_read, self._sent[:-1]))
        self._question = replace(question, history=before, owner=path[-1].conversation_id)

    def events(
        self, is_cancelled: Callable[[], bool]
    ) -> Generator[Prepared | TextEvent | Retrying | DocumentAnswer, None, None]:
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
