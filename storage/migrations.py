"""The steps that make the database what this version expects; each commits together with its record.

A step that was ever released stays as it is and keeps its name: what it did lies on people's disks. Only the index
is made in its present form, for it holds nothing of its own: a step that changes its form calls `index.rebuild`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from octavo.storage import attachments, index, memory_schema

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection
    from sqlite_utils import Migrations

APPLICATION_ID = 0x4F637476  # "Octv", in the header of the file

Step = Callable[["Connection"], None]

_CONVERSATIONS = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    """CREATE TABLE conversations (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        leaf_id TEXT REFERENCES messages(id) ON DELETE SET NULL,
        num_messages INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX conversations_by_update ON conversations(updated, id)",
    "CREATE INDEX conversations_by_leaf ON conversations(leaf_id)",
    # No cascade along parent_id: SQLite runs cascades as nested triggers, and a long conversation is deeper than it
    # allows. Within one DELETE the order of rows does not matter, the constraint is checked at its end.
    """CREATE TABLE messages (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        parent_id TEXT REFERENCES messages(id),
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        status TEXT NOT NULL,
        created TEXT NOT NULL,
        token_ids BLOB NOT NULL,
        model TEXT NOT NULL,
        record TEXT NOT NULL
    )""",
    "CREATE INDEX messages_by_conversation ON messages(conversation_id, parent_id)",
    "CREATE INDEX messages_by_parent ON messages(parent_id)",
    "CREATE INDEX messages_streaming ON messages(status) WHERE status = 'streaming'",
)


def _conversations(connection: Connection) -> None:
    for statement in _CONVERSATIONS:
        connection.execute(statement)
    index.create(connection)


STEPS: tuple[tuple[str, Step], ...] = (
    ("0001_conversations", _conversations),
    ("0002_memories", memory_schema.create),
    ("0003_attachments", attachments.create),
)


def migrations() -> Migrations:
    """Every step in order. Raises ValueError if a name is there twice."""
    from sqlite_utils import Migrations

    known = Migrations("octavo")
    for name, step in STEPS:
        known(name=name)(step)
    return known


def unknown_steps(connection: Connection) -> list[str]:
    """Names in the record that this version does not have: a newer version made them."""
    names = {name for name, _ in STEPS}
    return [applied.name for applied in migrations().applied(connection) if applied.name not in names]
