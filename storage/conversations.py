"""Conversations as trees of messages: editing a question or asking again for an answer adds a branch."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from octavo.storage import index, messages
from octavo.storage.connection import DamagedDatabaseError
from octavo.storage.errors import StorageError
from octavo.storage.fulltext import match_expression
from octavo.storage.ids import new_id
from octavo.storage.records import (
    CONVERSATION_COLUMNS,
    Conversation,
    Role,
    SearchHit,
    Status,
    StoredMessage,
    conversation_from_row,
    storable,
)

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

    from octavo.storage.database import Database

__all__ = ["Conversation", "Conversations", "Role", "SearchHit", "Status", "StoredMessage"]

_SHORTEST_PREFIX = 4
_SELECT = f"SELECT {CONVERSATION_COLUMNS} FROM conversations"  # noqa: S608
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _mending_the_index(
    method: Callable[Concatenate[Conversations, _P], _R],
) -> Callable[Concatenate[Conversations, _P], _R]:
    """`method`, tried again with a rebuilt index if it met damage.

    The check at start does not reach inside the index, and a message must not fail to be saved because of it.
    """

    @functools.wraps(method)
    def mended(self: Conversations, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(self, *args, **kwargs)
        except DamagedDatabaseError:
            if not self._database.writable:
                raise
            with self._database.atomic() as connection:
                index.rebuild(connection)
            return method(self, *args, **kwargs)

    return mended


class Conversations:
    """The conversations in `database`. Methods may be called from any thread, and raise StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """Where they are kept."""
        return self._database

    @_mending_the_index
    def create(self, title: str = "") -> Conversation:
        """A new conversation without messages."""
        now = _now()
        conversation = Conversation(new_id(), _one_line(title), now, now, None, 0)
        with self._database.atomic() as connection:
            cursor = connection.execute(
                "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?)",
                [conversation.id, conversation.title, now, now],
            )
            assert cursor.lastrowid is not None
            index.put_title(connection, cursor.lastrowid, conversation.title)
        return conversation

    def get(self, conversation_id: str) -> Conversation:
        """The conversation with this id. Raises StorageError if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(f"{_SELECT} WHERE id = ?", [conversation_id]).fetchone()
        if row is None:
            raise _missing(conversation_id)
        return conversation_from_row(row)

    def resolve(self, prefix: str) -> Conversation:
        """The one conversation whose id begins with `prefix`, at least 4 characters.

        Raises StorageError if there is none, or more than one.
        """
        prefix = storable(prefix).strip().lower()
        if len(prefix) < _SHORTEST_PREFIX:
            raise StorageError(f"An id needs at least {_SHORTEST_PREFIX} characters to be found by; got {prefix!r}.")
        with self._database.reading() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE id >= ? AND id < ? ORDER BY id LIMIT 2", [prefix, prefix + "\U0010ffff"]
            ).fetchall()
        if not rows:
            raise _missing(prefix)
        if len(rows) > 1:
            raise StorageError(f"More than one conversation has an id that begins with {prefix}; give more of it.")
        return conversation_from_row(rows[0])

    @_mending_the_index
    def list(
        self, *, limit: int = 50, before: tuple[str, str] | None = None, query: str = ""
    ) -> builtins.list[Conversation]:
        """Up to `limit` conversations, the one with the newest message first.

        before: (updated, id) of the last one already there. query: words to be found in the title, or in one message;
        a query that holds no word lists them all.
        """
        conditions, values = ["1"], builtins.list[Any]()
        if before is not None:
            conditions.append("(updated, id) < (?, ?)")
            values += before
        expression = match_expression(query)
        if expression:
            conditions.append(index.HOLDING_WORDS)
            values += [expression, expression]
        sql = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY updated DESC, id DESC LIMIT ?"
        with self._database.reading() as connection:
            return [conversation_from_row(row) for row in connection.execute(sql, [*values, limit])]

    @_mending_the_index
    def rename(self, conversation_id: str, title: str) -> None:
        """Give the conversation another title; its place in the list stays."""
        title = _one_line(title)
        with self._database.atomic() as connection:
            row = connection.execute(
                "UPDATE conversations SET title = ? WHERE id = ? RETURNING seq", [title, conversation_id]
            ).fetchone()
            if row is None:
                raise _missing(conversation_id)
            index.put_title(connection, row[0], title)

    @_mending_the_index
    def delete(self, conversation_id: str) -> None:
        """Delete the conversation, its messages and what the index holds of them, and overwrite their bytes.

        While a reader in another process is at work, copies stay in the log until the database is closed.
        """
        with self._database.atomic() as connection:
            row = connection.execute("SELECT seq FROM conversations WHERE id = ?", [conversation_id]).fetchone()
            if row is None:
                raise _missing(conversation_id)
            index.forget(connection, row[0], conversation_id)
            connection.execute("DELETE FROM conversations WHERE seq = ?", [row[0]])
        self._database.checkpoint()

    @_mending_the_index
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
            id=new_id(),
            conversation_id=conversation_id,
            parent_id=parent_id,
            role=role,
            text=storable(text),
            status=status,
            created=_now(),
            token_ids=tuple(token_ids),
            model=model,
            record=dict(record or {}),
        )
        with self._database.atomic() as connection:
            row = connection.execute(
                "UPDATE conversations SET updated = ?, num_messages = num_messages + 1 WHERE id = ? RETURNING id",
                [message.created, conversation_id],
            ).fetchone()
            if row is None:
                raise _missing(conversation_id)
            if parent_id is not None and messages.find(connection, parent_id).conversation_id != conversation_id:
                raise StorageError(f"The message {parent_id} is not in the conversation {conversation_id}.")
            messages.insert(connection, message)
            _move_leaf(connection, message)
        return message

    @_mending_the_index
    def update_message(
        self,
        message_id: str,
        *,
        text: str,
        token_ids: Sequence[int],
        status: Status,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        """Save an answer so far, or at its end; a record of None leaves the one that is there.

        The text can be found by its words once the status is no longer "streaming".
        """
        with self._database.atomic() as connection:
            conversation_id = messages.save(connection, message_id, text, token_ids, status, record)
            if status != "streaming":
                connection.execute("UPDATE conversations SET updated = ? WHERE id = ?", [_now(), conversation_id])

    def message(self, message_id: str) -> StoredMessage:
        """The message with this id. Raises StorageError if there is none."""
        with self._database.reading() as connection:
            return messages.find(connection, message_id)

    def path(self, conversation_id: str, leaf_id: str | None = None) -> builtins.list[StoredMessage]:
        """The messages from the root to `leaf_id` (None: the conversation's leaf), in order."""
        leaf_id = leaf_id or self.get(conversation_id).leaf_id
        if leaf_id is None:
            return []
        with self._database.reading() as connection:
            found = messages.chain(connection, conversation_id, leaf_id)
        if not found:
            raise StorageError(f"The conversation {conversation_id} has no message {leaf_id}.")
        return found

    def newest_answers(self, limit: int = 100) -> builtins.list[StoredMessage]:
        """The newest answers of all conversations, the newest first; without one that is being written."""
        with self._database.reading() as connection:
            return messages.newest_answers(connection, limit)

    def titles(self, ids: Collection[str]) -> dict[str, str]:
        """The titles of those conversations that are there; up to some hundred ids."""
        marks = ", ".join("?" * len(ids))
        with self._database.reading() as connection:
            found = connection.execute(f"SELECT id, title FROM conversations WHERE id IN ({marks})", [*ids])  # noqa: S608
            return dict(found.fetchall())

    def tree(self, conversation_id: str) -> builtins.list[StoredMessage]:
        """Every message of every branch, oldest first: a parent comes before its children."""
        with self._database.reading() as connection:
            return messages.all_of(connection, conversation_id)

    def siblings(self, message_id: str) -> builtins.list[str]:
        """The ids of the messages with this one's parent, itself among them, oldest first."""
        with self._database.reading() as connection:
            message = messages.find(connection, message_id)
            rows = connection.execute(
                "SELECT id FROM messages WHERE conversation_id = ? AND parent_id IS ? ORDER BY seq",
                [message.conversation_id, message.parent_id],
            )
            return [row[0] for row in rows]

    def select_branch(self, message_id: str) -> StoredMessage:
        """Make the newest message below `message_id` (itself if there is none) the conversation's leaf; returns it."""
        with self._database.atomic() as connection:
            leaf = messages.newest_below(connection, message_id)
            _move_leaf(connection, leaf)
        return leaf

    @_mending_the_index
    def search(self, query: str, limit: int = 50) -> builtins.list[SearchHit]:
        """Up to `limit` messages that hold every word of `query`, the best match first."""
        with self._database.reading() as connection:
            return index.search(connection, query, limit)

    @_mending_the_index
    def mark_interrupted(self) -> int:
        """Mark answers that were streaming when Octavo was killed as interrupted; returns how many there were."""
        with self._database.atomic() as connection:
            return messages.interrupt(connection)


def _move_leaf(connection: Connection, message: StoredMessage) -> None:
    connection.execute("UPDATE conversations SET leaf_id = ? WHERE id = ?", [message.id, message.conversation_id])


def _missing(conversation_id: str) -> StorageError:
    return StorageError(f"There is no conversation {conversation_id}; `octavo conversations list` shows their ids.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _one_line(title: str) -> str:
    return " ".join(storable(title).split())
