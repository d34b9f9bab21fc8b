"""What the memory adds to a prompt, in two places that leave cached pages valid.

Memories stand in front of the words of the question they were recalled for. Their ids are kept in that message's
record, so that later turns render the same text and the prompt only grows. What left the window stands, as summary
blocks, in front of the first question that is still there: that place moves only when the window is cut, and then
everything after the system prompt is computed anew in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from octavo.app.memory.fence import with_memories
from octavo.app.memory.recall import RECORD, Recall, recall
from octavo.app.memory.rolling import blocks_of
from octavo.app.memory.summary import render

if TYPE_CHECKING:
    from octavo.app.memory.candidates import Nearest
    from octavo.storage.conversations import Conversations
    from octavo.storage.memories import Memories
    from octavo.storage.records import StoredMessage
    from octavo.storage.summaries import Summaries

_SHARE = 8  # memories get at most this part of the context: one eighth
_MOST = 512


def memory_budget(context: int) -> int:
    """Tokens that the memories of one question may take."""
    return min(context // _SHARE, _MOST)


def recall_for(
    conversations: Conversations,
    memories: Memories,
    question: StoredMessage,
    budget: int,
    count_tokens: Callable[[str], int],
    *,
    nearest: Nearest | None = None,
) -> tuple[StoredMessage, Recall | None]:
    """The question with what is recalled for it in at most `budget` tokens in its record; a question that has been
    asked before keeps what it had, and the recall is None. Raises StorageError."""
    if RECORD in question.record:
        return question, None
    found = recall(memories, question.text, budget, count_tokens, nearest=nearest)
    record = {**question.record, RECORD: found.document()}
    conversations.update_message(
        question.id, text=question.text, token_ids=question.token_ids, status=question.status, record=record
    )
    return replace(question, record=record), found


def as_read(message: StoredMessage, memories: Memories) -> str:
    """A message's text as the model reads it: a question with the memories it was asked with."""
    record = message.record.get(RECORD)
    if message.role != "user" or not record or not record["ids"]:
        return message.text
    return with_memories(message.text, memories, record)


def earlier(
    summaries: Summaries,
    conversation_id: str,
    left: Sequence[StoredMessage],
    budget: int,
    count_tokens: Callable[[str], int],
) -> str:
    """What the messages that `left` the window come to, in at most `budget` tokens; empty if nothing left."""
    return render(blocks_of(summaries, conversation_id, left), budget, count_tokens) if left else ""
