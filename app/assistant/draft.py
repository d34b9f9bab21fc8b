"""An answer on its way into the database: saved as it grows, and at its end whatever that is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import TextEvent
    from octavo.storage.conversations import Conversations, Status, StoredMessage

FLUSH_S = 0.5  # how long text may be unsaved


class Draft:
    """An answer on its way into its row."""

    def __init__(self, conversations: Conversations, message: StoredMessage) -> None:
        self.message = message
        self.text = ""
        self.token_ids: list[int] = []
        self._conversations = conversations
        self._flushed = time.monotonic()

    def add(self, event: TextEvent) -> None:
        """Append text; what is on the screen is in the database soon after."""
        self.text += event.text
        self.token_ids += event.token_ids
        now = time.monotonic()
        if now - self._flushed >= FLUSH_S:
            self._conversations.update_message(
                self.message.id, text=self.text, token_ids=self.token_ids, status="streaming"
            )
            self._flushed = now

    def note(self, record: Mapping[str, Any]) -> None:
        """Add to its record, which is saved with its end."""
        self.message = replace(self.message, record={**self.message.record, **record})

    def finish(self, status: Status, record: Mapping[str, Any]) -> StoredMessage:
        """Save the end; only the first one counts."""
        if self.message.status == "streaming":
            record = {**self.message.record, **record}
            ids = tuple(self.token_ids)
            done = replace(self.message, text=self.text, token_ids=ids, status=status, record=record)
            self._conversations.update_message(
                done.id, text=done.text, token_ids=done.token_ids, status=status, record=record
            )
            self.message = done
        return self.message
