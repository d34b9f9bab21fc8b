"""Which messages were looked through for memories: none is read twice, and none that came later is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.storage.memories import moment

if TYPE_CHECKING:
    from octavo.storage.database import Database


class ReadMarks:
    """The marks of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def has(self, message_id: str) -> bool:
        """True if the message was looked through."""
        with self._database.reading() as connection:
            return (
                connection.execute("SELECT 1 FROM memory_read WHERE message_id = ?", [message_id]).fetchone()
                is not None
            )

    def put(self, message_id: str) -> bool:
        """Mark a message; False if it was marked before."""
        with self._database.atomic() as connection:
            cursor = connection.execute("INSERT OR IGNORE INTO memory_read VALUES (?, ?)", [message_id, moment()])
        return cursor.rowcount > 0

    def missed(self) -> list[tuple[str, str]]:
        """(conversation, message) of the user's messages that came after the first one read and were never read, as
        when the program ended before it got to them; the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT conversation_id, id FROM messages WHERE role = 'user' "
                "AND created > (SELECT min(at) FROM memory_read) AND id NOT IN (SELECT message_id FROM memory_read) "
                "ORDER BY created, id"
            ).fetchall()
        return [(row[0], row[1]) for row in rows]
