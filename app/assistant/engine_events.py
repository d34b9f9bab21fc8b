"""What the engine's thread tells the screen: frozen values that may cross threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from octavo.app.assistant.chat import ChatEvent


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """A model that is on this machine is being opened."""

    name: str


@dataclass(frozen=True, slots=True)
class ModelReady:
    """`context` tokens for prompt and answer together; the load took `load_s` seconds."""

    name: str
    context: int
    load_s: float


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
    """What the engine is doing and holds. Bytes; `tokens_used` of `tokens_limit` fill the context of the last answer.

    `kv_used` counts the pages with content, those kept for reuse among them. `tokens_per_s` is of the answer that
    runs, or ran last. Without a model all but `process_rss` are 0.
    """

    busy: bool
    weights: int
    kv_used: int
    kv_total: int
    process_rss: int
    tokens_used: int
    tokens_limit: int
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A command came to nothing for a reason a person can act on, such as a full disk; `error` is the sentence."""

    error: str


@dataclass(frozen=True, slots=True)
class EngineCrashed:
    """An error nobody foresaw. The conversation is saved, and the next command loads the model again."""

    error: str
    traceback: str


EngineEvent = ChatEvent | ModelLoading | ModelReady | ModelFailed | Status | TurnFailed | EngineCrashed
