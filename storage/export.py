"""A conversation as a document: Markdown for people, JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from octavo.storage.records import Conversation, StoredMessage

FORMAT = "octavo-conversation-1"

_SPEAKERS = {"user": "You", "assistant": "Octavo"}
_ENDINGS = {
    "streaming": "still being written",
    "cancelled": "stopped",
    "error": "ended by an error",
    "interrupted": "interrupted",
}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def to_markdown(conversation: Conversation, messages: Sequence[StoredMessage]) -> str:
    """The messages of one path, in order, each below a heading that says who wrote it. Ends with a newline.

    A code block that an answer was stopped in is closed, so that what follows is not taken for code.
    """
    parts = [f"# {conversation.title or 'Untitled conversation'}"]
    for message in messages:
        heading = f"## {_SPEAKERS[message.role]}"
        if message.status in _ENDINGS:
            heading += f" ({_ENDINGS[message.status]})"
        text = message.text.strip("\n")
        fence = _open_fence(text)
        parts += [heading, f"{text}\n{fence}" if fence else text]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_json(conversation: Conversation, tree: Sequence[StoredMessage]) -> dict[str, Any]:
    """The conversation and the messages of all branches, as values that json.dumps takes.

    The messages are a flat list; `parent_id` makes the tree, `leaf_id` names the end of the path being read.
    """
    messages = [asdict(message) | {"token_ids": list(message.token_ids)} for message in tree]
    return {"format": FORMAT, **asdict(conversation), "messages": messages}


def _open_fence(text: str) -> str:
    """The fence of a code block that `text` opens and does not close, or an empty string."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        marks, rest = found.groups()
        if not fence:
            # An info string holds no backtick: such a line is inline code.
            fence = "" if marks[0] == "`" and "`" in rest else marks
        elif marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip():
            fence = ""
    return fence
