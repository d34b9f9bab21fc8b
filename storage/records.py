"""What is kept of a conversation, as values."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Role: TypeAlias = Literal["user", "assistant"]
Status: TypeAlias = Literal["complete", "streaming", "cancelled", "error", "interrupted"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A tree of messages. The path from a root to `leaf_id` is the one being read; times are ISO 8601, UTC."""

    id: str
    title: str
    created: str
    updated: str
    leaf_id: str | None
    num_messages: int


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message. `token_ids` are those the engine generated; `record` says how the answer came about."""

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    text: str
    status: Status
    created: str
    token_ids: tuple[int, ...]
    model: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that matches; in the plain text of `snippet` each match stands between \\x02 and \\x03."""

    conversation_id: str
    title: str
    message_id: str
    snippet: str


CONVERSATION_COLUMNS = "id, title, created, updated, leaf_id, num_messages"
MESSAGE_COLUMNS = (
    "messages.id, messages.conversation_id, messages.parent_id, messages.role, messages.text, messages.status, "
    "messages.created, messages.token_ids, messages.model, messages.record"
)


def conversation_from_row(row: Sequence[Any]) -> Conversation:
    """A row of CONVERSATION_COLUMNS."""
    return Conversation(*row)


def message_from_row(row: Sequence[Any]) -> StoredMessage:
    """A row of MESSAGE_COLUMNS. If the details beside the text are damaged they are left out, and `record` says so."""
    key, conversation_id, parent_id, role, text, status, created, packed, model, encoded = row
    try:
        token_ids, record = unpack(packed), json.loads(encoded)
    except ValueError:
        token_ids, record = (), {"error": "The details of this message are damaged."}
    return StoredMessage(key, conversation_id, parent_id, role, text, status, created, token_ids, model, record)


def pack(token_ids: Sequence[int]) -> bytes:
    """Token ids as little-endian 32-bit numbers. Raises OverflowError for one that does not fit."""
    numbers = array("I", token_ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(data: bytes) -> tuple[int, ...]:
    """What `pack` packed."""
    numbers = array("I", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def storable(text: str) -> str:
    """`text` with what UTF-8 cannot hold (halves of surrogate pairs, from a mistyped argument) replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text
