"""What the engine's thread is asked to do, as it waits in the thread's queues."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.storage.conversations import StoredMessage


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
