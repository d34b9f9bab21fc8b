"""What the engine's thread is asked to do, as it waits in the thread's queues."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.storage.conversations import Conversations, StoredMessage


@dataclass(frozen=True, slots=True)
class LoadModel:
    """A model by name or path; None is the one the settings name."""

    model: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A question to be saved or found, then answered."""

    question: Callable[[], StoredMessage]
    is_new: bool
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    """A question that was saved or found."""

    ask: Ask
    question: StoredMessage


@dataclass(frozen=True, slots=True)
class ForgetPages:
    """Conversations are to be forgotten, if that did not happen between the steps of an answer."""


@dataclass(frozen=True, slots=True)
class Attend:
    """Look after what is due while no answer runs: figures, questions about pages, idle conversations."""


def is_joined(conversations: Conversations, command: AnswerQuestion) -> bool:
    """True if another question was sent below a new one that nobody has answered yet. Raises StorageError."""
    question = command.question
    path = conversations.path(question.conversation_id)
    places = [place for place, message in enumerate(path[:-1]) if message.id == question.id]
    return command.ask.is_new and any(path[place + 1].role == "user" for place in places)
