"""The table of messages: the statements that add, save, index and find them, inside a transaction of the caller."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from octavo.storage import index
from octavo.storage.errors import StorageError
from octavo.storage.records import MESSAGE_COLUMNS, Status, StoredMessage, message_from_row, pack, storable

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

_FIND = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id = ?"  # noqa: S608
_ALL = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE conversation_id = ? ORDER BY seq"  # noqa: S608
# A parent is older than its children, so the order of `seq` is the order from root to leaf. The text is fetched
# last, so that the recursion carries numbers only. Comparing `seq` ends the recursion in a damaged file, too.
_CHAIN = f"""
    WITH RECURSIVE chain (seq, parent_id) AS (
        SELECT seq, parent_id FROM messages WHERE id = ? AND conversation_id = ?
        UNION ALL
        SELECT above.seq, above.parent_id FROM chain JOIN messages AS above
        ON above.id = chain.parent_id AND above.seq < chain.seq
    )
    SELECT {MESSAGE_COLUMNS} FROM messages WHERE seq IN (SELECT seq FROM chain) ORDER BY seq
    """  # noqa: S608
# The newest message of a branch has no children: they would be newer.
_NEWEST_BELOW = f"""
    WITH RECURSIVE branch (seq, id) AS (
        SELECT seq, id FROM messages WHERE id = ?
        UNION ALL
        SELECT below.seq, below.id FROM branch JOIN messages AS below
        ON below.parent_id = branch.id AND below.seq > branch.seq
    )
    SELECT {MESSAGE_COLUMNS} FROM messages WHERE seq = (SELECT max(seq) FROM branch)
    """  # noqa: S608
_NEWEST_ANSWERS = f"""
    SELECT {MESSAGE_COLUMNS} FROM messages WHERE role = 'assistant' AND status != 'streaming' ORDER BY seq DESC LIMIT ?
    """  # noqa: S608
_INSERT = """
    INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created, token_ids, model, record)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """


def find(connection: Connection, message_id: str) -> StoredMessage:
    """The message with this id. Raises StorageError if there is none."""
    return _one(connection, _FIND, message_id)


def newest_below(connection: Connection, message_id: str) -> StoredMessage:
    """The newest message of the branch that begins at this one. Raises StorageError if there is no such message."""
    return _one(connection, _NEWEST_BELOW, message_id)


def chain(connection: Connection, conversation_id: str, leaf_id: str) -> list[StoredMessage]:
    """The messages from the root to the leaf; empty if the conversation has no such message."""
    return [message_from_row(row) for row in connection.execute(_CHAIN, [leaf_id, conversation_id])]


def newest_answers(connection: Connection, limit: int) -> list[StoredMessage]:
    """The newest answers of all conversations that have ended, the newest first."""
    return [message_from_row(row) for row in connection.execute(_NEWEST_ANSWERS, [limit])]


def all_of(connection: Connection, conversation_id: str) -> list[StoredMessage]:
    """Every message of the conversation, oldest first."""
    return [message_from_row(row) for row in connection.execute(_ALL, [conversation_id])]


def insert(connection: Connection, message: StoredMessage) -> None:
    """Add the message, and index its text unless it is still being written."""
    cursor = connection.execute(
        _INSERT,
        [
            message.id,
            message.conversation_id,
            message.parent_id,
            message.role,
            message.text,
            message.status,
            message.created,
            pack(message.token_ids),
            message.model,
            json.dumps(message.record),
        ],
    )
    assert cursor.lastrowid is not None
    if message.status != "streaming":
        index.put_message(connection, cursor.lastrowid, message.text)


def save(
    connection: Connection,
    message_id: str,
    text: str,
    token_ids: Sequence[int],
    status: Status,
    record: Mapping[str, Any] | None,
) -> str:
    """Replace what an answer holds; returns the id of its conversation. Raises StorageError if it is gone."""
    text = storable(text)
    row = connection.execute(
        "UPDATE messages SET text = ?, token_ids = ?, status = ?, record = coalesce(?, record) WHERE id = ? "
        "RETURNING seq, conversation_id",
        [text, pack(token_ids), status, None if record is None else json.dumps(dict(record)), message_id],
    ).fetchone()
    if row is None:
        raise StorageError(f"There is no message {message_id} to save; its conversation may have been deleted.")
    if status != "streaming":
        index.put_message(connection, row[0], text)
    conversation_id: str = row[1]
    return conversation_id


def interrupt(connection: Connection) -> int:
    """Mark and index every message that is still being written; returns how many there were."""
    rows = connection.execute(
        "UPDATE messages SET status = 'interrupted' WHERE status = 'streaming' RETURNING seq, text"
    ).fetchall()
    for seq, text in rows:
        index.put_message(connection, seq, text)
    return len(rows)


def _one(connection: Connection, sql: str, message_id: str) -> StoredMessage:
    row = connection.execute(sql, [message_id]).fetchone()
    if row is None:
        raise StorageError(f"There is no message {message_id}.")
    return message_from_row(row)
