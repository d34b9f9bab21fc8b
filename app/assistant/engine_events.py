"""What the engine's thread tells the screen: frozen values that may cross threads."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from octavo.app.assistant.chat import ChatEvent
from octavo.app.assistant.forgetting import Forgotten
from octavo.app.assistant.watch import PagesShown
from octavo.app.documents.background import DocumentReading
from octavo.app.errors import AppError
from octavo.engine.errors import EngineError
from octavo.storage.errors import StorageError

if TYPE_CHECKING:
    from octavo.app.models.resolve import ResolvedModel


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """A model that is on this machine is being opened."""

    name: str


@dataclass(frozen=True, slots=True)
class ModelReady:
    """`context` tokens for prompt and answer together; the load took `load_s` seconds.

    `budgets` are sentences: what memory and disk the tiers of its pages got, and why.
    """

    name: str
    context: int
    load_s: float
    budgets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """No model is loaded, and `error` is the sentence that says why.

    "missing" is a model of the catalogue that is not on this machine: `entry_id` can be fetched, then loaded.
    """

    name: str
    error: str
    kind: Literal["missing", "error"] = "error"
    entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What the engine is doing. `tokens_used` of `tokens_limit` fill the context of the last answer; `tokens_per_s` is
    of the answer that runs, or ran last. Without a model all are 0. What memory holds is in the Watch's snapshot.
    """

    busy: bool
    tokens_used: int
    tokens_limit: int
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class ProblemsFound:
    """Sentences about pages that could not be kept or read back, each told once. No answer is wrong for them."""

    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PagesForgotten:
    """What was kept of a deleted conversation is gone, or `result` says why not."""

    conversation_id: str
    result: Forgotten


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A command came to nothing for a reason a person can act on, such as a full disk; `error` is the sentence."""

    error: str


@dataclass(frozen=True, slots=True)
class EngineCrashed:
    """An error nobody foresaw. The conversation is saved, and the next command loads the model again."""

    error: str
    traceback: str


def failure(error: Exception) -> TurnFailed | EngineCrashed:
    """What an error that ended a command comes to: a sentence of ours, or a crash."""
    if isinstance(error, (AppError, EngineError, StorageError)):
        return TurnFailed(str(error))
    return EngineCrashed(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


def missing(model: ResolvedModel) -> str:
    """The sentence for a model of the catalogue that is not here."""
    from octavo.app.models.text import human_size

    assert model.entry is not None
    return (
        f"{model.entry.name} ({human_size(model.entry.size)}) is not on this machine yet; fetch it with "
        f"`octavo models pull {model.entry.id}`, or choose another model."
    )


EngineEvent = (
    ChatEvent
    | ModelLoading
    | ModelReady
    | ModelFailed
    | Status
    | ProblemsFound
    | PagesForgotten
    | PagesShown
    | DocumentReading
    | TurnFailed
    | EngineCrashed
)
