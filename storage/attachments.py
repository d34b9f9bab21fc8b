"""Which documents a conversation asks about: files and folders by their paths, and how they are to be asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

    from octavo.storage.database import Database

AskMode = Literal["auto", "search", "read"]

# A closed one is kept: the conversation's KV pages may still hold text of the document, and go when that goes.
_TABLE = """CREATE TABLE attachments (
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    mode TEXT NOT NULL DEFAULT 'auto',
    is_open INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (conversation_id, path)
) WITHOUT ROWID"""


def create(connection: Connection) -> None:
    """Make the table."""
    connection.execute(_TABLE)


@dataclass(frozen=True, slots=True)
class Attached:
    """The open paths of a conversation, in order, and how they are asked."""

    paths: tuple[str, ...] = ()
    mode: AskMode = "auto"


class Attachments:
    """The attachments in `database`. Methods may be called from any thread, and raise StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, conversation_id: str) -> Attached:
        """What is open in a conversation."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT path, mode FROM attachments WHERE conversation_id = ? AND is_open ORDER BY path",
                [conversation_id],
            ).fetchall()
        return Attached(tuple(path for path, _ in rows), rows[0][1] if rows else "auto")

    def attach(self, conversation_id: str, paths: Iterable[str]) -> None:
        """Open paths in a conversation, asked as what is open there already is."""
        mode = self.of(conversation_id).mode
        with self._database.atomic() as connection:
            for path in paths:
                connection.execute(
                    "INSERT INTO attachments (conversation_id, path, mode) VALUES (?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET is_open = 1, mode = excluded.mode",
                    [conversation_id, path, mode],
                )

    def detach(self, conversation_id: str, path: str) -> None:
        """Close a path in a conversation."""
        with self._database.atomic() as connection:
            connection.execute(
                "UPDATE attachments SET is_open = 0 WHERE conversation_id = ? AND path = ?", [conversation_id, path]
            )

    def set_mode(self, conversation_id: str, mode: AskMode) -> None:
        """How the documents of a conversation are asked from now on."""
        with self._database.atomic() as connection:
            connection.execute("UPDATE attachments SET mode = ? WHERE conversation_id = ?", [mode, conversation_id])

    def holders(self, path: str) -> list[str]:
        """Conversations that ask or asked about this path, or a folder above it."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT conversation_id FROM attachments "
                "WHERE path = ? OR substr(?, 1, length(path) + 1) = path || '/' ORDER BY 1",
                [path, path],
            ).fetchall()
        return [row[0] for row in rows]
