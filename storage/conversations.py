"""Conversations as trees of messages: editing a question or asking again for an answer adds a branch."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from octavo.storage.errors import StorageError
from octavo.storage.fulltext import MATCH_END, MATCH_START, indexed, match_expression, readable
from octavo.storage.ids import new_id
from octavo.storage.records import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    Conversation,
    Role,
    SearchHit,
    Status,
    StoredMessage,
    conversation_from_row,
    message_from_row,
    pack,
    storable,
)

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

    from octavo.storage.database import Database

__all__ = ["Conversation", "Conversations", "Role", "SearchHit", "Status", "StoredMessage"]

_SHORTEST_PREFIX = 4
_SNIPPET_WORDS = 24


class Conversations:
    """The conversations in `database`. Methods may be called from any thread, and raise StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, title: str = "") -> Conversation:
        """A new conversation without messages."""
        now = _now()
        conversation = Conversation(new_id(), _one_line(title), now, now, None, 0)
        with self._database.atomic() as connection:
            cursor = connection.execute(
                "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?)",
                [conversation.id, conversation.title, now, now],
            )
            connection.execute(
                "INSERT INTO titles_fts (rowid, text) VALUES (?, ?)", [cursor.lastrowid, indexed(conversation.title)]
            )
        return conversation

    def get(self, conversation_id: str) -> Conversation:
        """The conversation with this id. Raises StorageError if there is none."""
        sql = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE id = ?"  # noqa: S608
        with self._database.reading() as connection:
            row = connection.execute(sql, [conversation_id]).fetchone()
        if row is None:
            raise StorageError(
                f"There is no conversation {conversation_id}; `octavo conversations list` shows those there are."
            )
        return conversation_from_row(row)

    def resolve(self, prefix: str) -> Conversation:
        """The one conversation whose id begins with `prefix`, at least 4 characters.

        Raises StorageError if there is none, or more than one.
        """
        prefix = prefix.strip().lower()
        if len(prefix) < _SHORTEST_PREFIX:
            raise StorageError(
                f"{prefix!r} is too short for a conversation; give at least {_SHORTEST_PREFIX} characters."
            )
        sql = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"  # noqa: S608
        with self._database.reading() as connection:
            rows = connection.execute(sql, [prefix, prefix + "\U0010ffff"]).fetchall()
        if not rows:
            raise StorageError(f"No conversation begins with {prefix}; `octavo conversations list` shows their ids.")
        if len(rows) > 1:
            raise StorageError(f"More than one conversation begins with {prefix}; give more of its id.")
        return conversation_from_row(rows[0])

    def list(self, *, limit: int = 50, before: tuple[str, str] | None = None, query: str = "") -> list[Conversation]:
        """Up to `limit` conversations, newest activity first.

        before: (updated, id) of the last one already there. query: words to be found in the title, or in a message; a
        query without any word lists all.
        """
        conditions, values = ["1"], list[Any]()
        if before is not None:
            conditions.append("(updated, id) < (?, ?)")
            values += before
        expression = match_expression(query)
        if expression:
            conditions.append(
                "(seq IN (SELECT rowid FROM titles_fts WHERE titles_fts MATCH ?) OR id IN (SELECT conversation_id "
                "FROM messages WHERE seq IN (SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?)))"
            )
            values += [expression, expression]
        sql = (
            f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE {' AND '.join(conditions)} "  # noqa: S608
            "ORDER BY updated DESC, id DESC LIMIT ?"
        )
        with self._database.reading() as connection:
            return [conversation_from_row(row) for row in connection.execute(sql, [*values, limit])]

    def rename(self, conversation_id: str, title: str) -> None:
        """Give the conversation another title; its place in the list stays."""
        with self._database.atomic() as connection:
            title = _one_line(title)
            found = connection.execute(
                "UPDATE conversations SET title = ? WHERE id = ? RETURNING seq", [title, conversation_id]
            )
            row = found.fetchone()
            if row is None:
                raise StorageError(f"There is no conversation {conversation_id} to rename.")
            connection.execute("UPDATE titles_fts SET text = ? WHERE rowid = ?", [indexed(title), row[0]])

    def delete(self, conversation_id: str) -> None:
        """Delete the conversation, its messages and what the index holds of them, and overwrite their bytes.

        Copies that a reader in another process still needs are overwritten when the database is closed.
        """
        with self._database.atomic() as connection:
            row = connection.execute("SELECT seq FROM conversations WHERE id = ?", [conversation_id]).fetchone()
            if row is None:
                raise StorageError(f"There is no conversation {conversation_id} to delete.")
            connection.execute(
                "DELETE FROM messages_fts WHERE rowid IN (SELECT seq FROM messages WHERE conversation_id = ?)",
                [conversation_id],
            )
            connection.execute("DELETE FROM titles_fts WHERE rowid = ?", [row[0]])
            connection.execute("DELETE FROM conversations WHERE id = ?", [conversation_id])
            # A deleted row stays in the index, only marked, until its parts are merged.
            for table in ("messages_fts", "titles_fts"):
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608
        self._database.checkpoint()

    def add_message(
        self,
        conversation_id: str,
        parent_id: str | None,
        role: Role,
        text: str,
        *,
        status: Status = "complete",
        model: str = "",
        token_ids: Sequence[int] = (),
        record: Mapping[str, Any] | None = None,
    ) -> StoredMessage:
        """Add a message below `parent_id` (None: at the root), and make it the conversation's leaf."""
        message = StoredMessage(
            new_id(),
            conversation_id,
            parent_id,
            role,
            storable(text),
            status,
            _now(),
            tuple(token_ids),
            model,
            dict(record or {}),
        )
        with self._database.atomic() as connection:
            if parent_id is not None and self._message(connection, parent_id).conversation_id != conversation_id:
                raise StorageError(f"The message {parent_id} is in another conversation than {conversation_id}.")
            moved = connection.execute("SELECT 1 FROM conversations WHERE id = ?", [conversation_id]).fetchone()
            if moved is None:
                raise StorageError(f"There is no conversation {conversation_id} to add a message to.")
            cursor = connection.execute(
                "INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created, token_ids, model, "
                "record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    message.id,
                    conversation_id,
                    parent_id,
                    role,
                    message.text,
                    status,
                    message.created,
                    pack(message.token_ids),
                    model,
                    json.dumps(message.record),
                ],
            )
            if status != "streaming":
                self._index(connection, cursor.lastrowid, message.text)
            connection.execute(
                "UPDATE conversations SET leaf_id = ?, updated = ?, num_messages = num_messages + 1 WHERE id = ?",
                [message.id, message.created, conversation_id],
            )
        return message

    def update_message(
        self,
        message_id: str,
        *,
        text: str,
        token_ids: Sequence[int],
        status: Status,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the answer so far, or its end. A record of None leaves the one that is there.

        The text can be found once the status is no longer "streaming".
        """
        with self._database.atomic() as connection:
            row = connection.execute("SELECT seq, conversation_id FROM messages WHERE id = ?", [message_id]).fetchone()
            if row is None:
                raise StorageError(f"There is no message {message_id} to save; its conversation has been deleted.")
            connection.execute(
                "UPDATE messages SET text = ?, token_ids = ?, status = ?, record = coalesce(?, record) WHERE seq = ?",
                [storable(text), pack(token_ids), status, None if record is None else json.dumps(dict(record)), row[0]],
            )
            if status != "streaming":
                self._index(connection, row[0], storable(text))
                connection.execute("UPDATE conversations SET updated = ? WHERE id = ?", [_now(), row[1]])

    def message(self, message_id: str) -> StoredMessage:
        """The message with this id. Raises StorageError if there is none."""
        with self._database.reading() as connection:
            return self._message(connection, message_id)

    def path(self, conversation_id: str, leaf_id: str | None = None) -> builtins.list[StoredMessage]:
        """The messages from the root to `leaf_id` (None: the conversation's leaf), in order."""
        if leaf_id is None:
            leaf_id = self.get(conversation_id).leaf_id
            if leaf_id is None:
                return []
        sql = f"""
            WITH RECURSIVE chain (seq, parent_id) AS (
                SELECT seq, parent_id FROM messages WHERE id = ? AND conversation_id = ?
                UNION ALL
                SELECT above.seq, above.parent_id FROM chain JOIN messages AS above ON above.id = chain.parent_id
            )
            SELECT {MESSAGE_COLUMNS} FROM chain CROSS JOIN messages ON messages.seq = chain.seq ORDER BY chain.seq
            """  # noqa: S608
        with self._database.reading() as connection:
            rows = connection.execute(sql, [leaf_id, conversation_id]).fetchall()
        if not rows:
            raise StorageError(f"The conversation {conversation_id} has no message {leaf_id}.")
        return [message_from_row(row) for row in rows]

    def tree(self, conversation_id: str) -> builtins.list[StoredMessage]:
        """Every message of every branch, oldest first: a parent comes before its children."""
        sql = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE conversation_id = ? ORDER BY seq"  # noqa: S608
        with self._database.reading() as connection:
            return [message_from_row(row) for row in connection.execute(sql, [conversation_id])]

    def siblings(self, message_id: str) -> builtins.list[str]:
        """The ids of the messages that share this one's parent, itself among them, oldest first."""
        with self._database.reading() as connection:
            message = self._message(connection, message_id)
            rows = connection.execute(
                "SELECT id FROM messages WHERE conversation_id = ? AND parent_id IS ? ORDER BY seq",
                [message.conversation_id, message.parent_id],
            )
            return [row[0] for row in rows]

    def select_branch(self, message_id: str) -> StoredMessage:
        """Make the newest message below `message_id` (itself if there is none) the conversation's leaf, and return it.

        The newest of a branch has no children: they would be newer.
        """
        sql = f"""
            WITH RECURSIVE branch (seq, id) AS (
                SELECT seq, id FROM messages WHERE id = ?
                UNION ALL
                SELECT below.seq, below.id FROM branch JOIN messages AS below ON below.parent_id = branch.id
            )
            SELECT {MESSAGE_COLUMNS} FROM messages WHERE seq = (SELECT max(seq) FROM branch)
            """  # noqa: S608
        with self._database.atomic() as connection:
            row = connection.execute(sql, [message_id]).fetchone()
            if row is None:
                raise StorageError(f"There is no message {message_id} to continue from.")
            leaf = message_from_row(row)
            connection.execute("UPDATE conversations SET leaf_id = ? WHERE id = ?", [leaf.id, leaf.conversation_id])
        return leaf

    def search(self, query: str, limit: int = 50) -> builtins.list[SearchHit]:
        """Up to `limit` messages that hold every word of `query`, the best match first."""
        expression = match_expression(query)
        if not expression:
            return []
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT conversations.id, conversations.title, messages.id, snippet(messages_fts, 0, ?, ?, '…', ?) "
                "FROM messages_fts JOIN messages ON messages.seq = messages_fts.rowid "
                "JOIN conversations ON conversations.id = messages.conversation_id "
                "WHERE messages_fts MATCH ? ORDER BY rank LIMIT ?",
                [MATCH_START, MATCH_END, _SNIPPET_WORDS, expression, limit],
            )
            return [SearchHit(row[0], row[1], row[2], readable(row[3])) for row in rows]

    def mark_interrupted(self) -> int:
        """Mark answers that were streaming when Octavo was killed as interrupted; returns how many there were."""
        with self._database.atomic() as connection:
            rows = connection.execute(
                "UPDATE messages SET status = 'interrupted' WHERE status = 'streaming' RETURNING seq, text"
            ).fetchall()
            for seq, text in rows:
                self._index(connection, seq, text)
        return len(rows)

    @staticmethod
    def _message(connection: Connection, message_id: str) -> StoredMessage:
        sql = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id = ?"  # noqa: S608
        row = connection.execute(sql, [message_id]).fetchone()
        if row is None:
            raise StorageError(f"There is no message {message_id}.")
        return message_from_row(row)

    @staticmethod
    def _index(connection: Connection, seq: int | None, text: str) -> None:
        connection.execute("DELETE FROM messages_fts WHERE rowid = ?", [seq])
        connection.execute("INSERT INTO messages_fts (rowid, text) VALUES (?, ?)", [seq, indexed(text)])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _one_line(title: str) -> str:
    return " ".join(storable(title).split())
