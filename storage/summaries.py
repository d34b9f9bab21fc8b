"""Summary blocks of conversations: each covers a range of messages of one branch, and is never changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from octavo.storage.memories import moment

if TYPE_CHECKING:
    from octavo.storage.database import Database


class Summaries:
    """The blocks of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, conversation_id: str, first_id: str, last_id: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Put a block in place, in one transaction; one of the same range that is there already stays."""
        with self._database.atomic() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO summary_blocks (conversation_id, first_id, last_id, lines, created) "
                "VALUES (?, ?, ?, ?, ?)",
                [conversation_id, first_id, last_id, json.dumps([dict(line) for line in lines]), moment()],
            )

    def list(self, conversation_id: str) -> list[tuple[str, str, list[dict[str, Any]]]]:
        """(first message, last message, lines) of each block, the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT first_id, last_id, lines FROM summary_blocks WHERE conversation_id = ? ORDER BY first_id",
                [conversation_id],
            ).fetchall()
        return [(first, last, json.loads(lines)) for first, last, lines in rows]
