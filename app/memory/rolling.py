"""The rolling summary of a conversation: which messages have a block, and the blocks of those that left the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from octavo.app.memory.summary import Block, Line, is_supported, summarise

if TYPE_CHECKING:
    from octavo.storage.records import StoredMessage
    from octavo.storage.summaries import Summaries

BLOCK_MESSAGES = 8


def blocks_of(summaries: Summaries, conversation_id: str, left: Sequence[StoredMessage]) -> list[Block]:
    """The blocks of the messages that `left` the window, a beginning of the path, in order.

    Every `BLOCK_MESSAGES` messages get a block that is kept, made from these messages alone the first time it is
    asked for; the last few have one that is made each time. A kept block whose lines no longer stand in its messages
    (a message was changed) is made anew, and not kept.
    """
    kept = {(first, last): lines for first, last, lines in summaries.list(conversation_id)}
    blocks = []
    for start in range(0, len(left), BLOCK_MESSAGES):
        messages = left[start : start + BLOCK_MESSAGES]
        key = (messages[0].id, messages[-1].id)
        block = _read(key, kept[key]) if key in kept else None
        if block is None or not _holds(block, messages):
            block = summarise(messages)
            if len(messages) == BLOCK_MESSAGES and key not in kept:
                summaries.add(conversation_id, *key, [_document(line) for line in block.lines])
        blocks.append(block)
    return blocks


def _holds(block: Block, messages: Sequence[StoredMessage]) -> bool:
    sources = {message.id: message.text for message in messages}
    return all(is_supported(line, sources) for line in block.lines)


def _document(line: Line) -> dict[str, object]:
    return {"kind": line.kind, "text": line.text, "messages": list(line.message_ids), "day": line.day}


def _read(key: tuple[str, str], lines: Sequence[dict[str, object]]) -> Block | None:
    try:
        read = tuple(
            Line(line["kind"], line["text"], tuple(line["messages"]), str(line.get("day", "")))  # type: ignore[arg-type]
            for line in lines
        )
    except (KeyError, TypeError):
        return None
    return Block(*key, read)
