"""From stored messages to what a model reads, and what the answers' records say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from octavo.app.assistant.budget import Budget, LeftOut, Turn

if TYPE_CHECKING:
    from octavo.engine.tokenizer import Message, Tokenizer
    from octavo.storage.conversations import Conversations, StoredMessage

CONTEXT_FULL = "context full"
REFUSED = "too long for the context"
SYSTEM = "system"  # key in the record of a conversation's first message
SUMMARY = "summary"  # key in an answer's record: what of the prompt stood for the messages that had left


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A question and what followed it. A refused one was too long for the context and is never sent again."""

    messages: tuple[StoredMessage, ...]

    @property
    def refused(self) -> bool:
        return any(message.record.get("refused") for message in self.messages)

    def as_read(self, tokenizer: Tokenizer, text_of: Callable[[StoredMessage], str] | None = None) -> Turn:
        """The turn for the prompt; answers that never got a word are left away. `text_of` gives a message's text as the
        model reads it, by default the text alone."""
        read = (_as_read(message, tokenizer, text_of) for message in self.messages if message.text)
        return Turn(tuple(read))


def _as_read(message: StoredMessage, tokenizer: Tokenizer, text_of: Callable[[StoredMessage], str] | None) -> Message:
    """Generated ids are kept where they are ids of this tokenizer, which is so if they spell the very text."""
    from octavo.engine.tokenizer import Message

    ids, text = message.token_ids, text_of(message) if text_of is not None else message.text
    return Message(message.role, text, ids if ids and tokenizer.decode(ids) == text else None)


def system_of(path: Sequence[StoredMessage], default: str) -> str:
    """The system prompt of the conversation, which its first message records, or else the default."""
    return str(path[0].record.get(SYSTEM, default)) if path else default


def set_system(conversations: Conversations, conversation_id: str, text: str | None) -> None:
    """Give a conversation that has messages its own system prompt, or with None the default. Raises StorageError."""
    first = conversations.path(conversation_id)[0]
    record = {key: value for key, value in first.record.items() if key != SYSTEM}
    if text is not None:
        record[SYSTEM] = text
    conversations.update_message(
        first.id, text=first.text, token_ids=first.token_ids, status=first.status, record=record
    )


def turns_of(path: Sequence[StoredMessage]) -> list[StoredTurn]:
    """The path from the first message on, in whole turns: each starts with a question."""
    starts = [i for i, message in enumerate(path) if message.role == "user" or i == 0]
    return [StoredTurn(tuple(path[start:end])) for start, end in zip(starts, [*starts[1:], len(path)], strict=True)]


def first_kept(turns: Sequence[StoredTurn], budget: Budget) -> int:
    """The turn the last answer's prompt began with, or 0 where a larger context may hold more again."""
    windows = [message.record.get("window") for turn in turns for message in turn.messages]
    window = next((window for window in reversed(windows) if window), None)
    if window is None or Budget(window["context"], window["reserve"], window["margin"]).available < budget.available:
        return 0
    starts = [turn.messages[0].id for turn in turns]
    return starts.index(window["kept_from"]) if window["kept_from"] in starts else 0


def summary_budget(turns: Sequence[StoredTurn], otherwise: int) -> int:
    """The tokens that the summary in the last prompt was made with."""
    records = [message.record for turn in turns for message in turn.messages if "window" in message.record]
    found = records[-1].get(SUMMARY) if records else None
    return int(found["budget"]) if found else otherwise


def window_record(budget: Budget, num_prompt: int, kept_from: str) -> dict[str, Any]:
    """The prompt's measures for an answer's record; `kept_from` is the first message of the history it held."""
    return {
        "context": budget.context,
        "reserve": budget.reserve,
        "margin": budget.margin,
        "prompt_tokens": num_prompt,
        "kept_from": kept_from,
    }


def left_out_record(path: Sequence[StoredMessage], left_out: Sequence[LeftOut]) -> list[dict[str, Any]]:
    """What left, as stretches of the path: of one reason, from `first_id` to `last_id`, both included."""
    left = {item.message_id: item for item in left_out}
    stretches: list[dict[str, Any]] = []
    reason = None
    for message in path:
        item = left.get(message.id)
        if item is not None:
            if item.reason != reason:
                stretches.append({"first_id": item.message_id, "reason": item.reason, "messages": 0, "tokens": 0})
            stretches[-1]["last_id"] = item.message_id
            stretches[-1]["messages"] += 1
            stretches[-1]["tokens"] += item.tokens
        reason = item.reason if item is not None else None
    return stretches


def left_out_ids(path: Sequence[StoredMessage]) -> dict[str, str]:
    """Ids of the messages on `path` that the last answer was given without, with the reason."""
    record: Mapping[str, Any] = next((m.record for m in reversed(path) if "left_out" in m.record), {})
    places = {message.id: place for place, message in enumerate(path)}
    left: dict[str, str] = {}
    for stretch in record.get("left_out", ()):
        if stretch["first_id"] in places and stretch["last_id"] in places:
            for message in path[places[stretch["first_id"]] : places[stretch["last_id"]] + 1]:
                left[message.id] = stretch["reason"]
    return left
