"""What is remembered about the person: memories, when they hold, their evidence, conflicts, and what was forgotten.

Nothing is deleted except by `forget`, which leaves a tombstone without content.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from octavo.storage.errors import StorageError
from octavo.storage.fulltext import any_word_expression, indexed
from octavo.storage.ids import new_id
from octavo.storage.memory_records import MEMORY_COLUMNS, Conflict, Evidence, Memory, Source
from octavo.storage.records import storable

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

    from octavo.storage.database import Database

_FROM = "FROM memories JOIN beliefs ON beliefs.memory_id = memories.id AND beliefs.recorded_to IS NULL"
_SELECT = f"SELECT {MEMORY_COLUMNS} {_FROM}"
_VALID = "(valid_from IS NULL OR valid_from <= ?) AND (valid_to IS NULL OR valid_to > ?)"
_SHORTEST_PREFIX = 4
_CONFLICT = "id, old_id, new_id, verdict, reason, checked_by, created, state"


class Memories:
    """The memories of a database. Inside `database.atomic()` several calls are one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(
        self,
        text: str,
        *,
        language: str,
        claim: Mapping[str, Any],
        concepts: Iterable[str],
        source: Source,
        said: str,
        valid_from: str | None,
        valid_to: str | None,
        memory_id: str | None = None,
    ) -> Memory:
        """Remember a statement. `concepts` are words it can be found by besides its own."""
        text, key, now = storable(text), memory_id or new_id(), moment()
        subject, slot, value = (str(claim[name]) for name in ("subject", "slot", "value"))
        with self.database.atomic() as connection:
            cursor = connection.execute(
                "INSERT INTO memories (id, text, language, subject, slot, value, claim, source, said) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [key, text, language, subject, slot, storable(value), json.dumps(dict(claim)), source, said],
            )
            connection.execute(
                "INSERT INTO beliefs (memory_id, valid_from, valid_to, recorded_from) VALUES (?, ?, ?, ?)",
                [key, valid_from, valid_to, now],
            )
            connection.execute(
                "INSERT INTO memories_fts (rowid, text, concepts) VALUES (?, ?, ?)",
                [cursor.lastrowid, indexed(text), indexed(" ".join(concepts).replace("_", " "))],
            )
        return self.get(key)

    def get(self, memory_id: str) -> Memory:
        """The memory with this id as it is believed now, or was when it was taken back. Raises StorageError."""
        with self.database.reading() as connection:
            row = connection.execute(
                f"SELECT {MEMORY_COLUMNS} FROM memories JOIN beliefs ON beliefs.memory_id = memories.id "  # noqa: S608
                "WHERE memories.id = ? ORDER BY beliefs.seq DESC LIMIT 1",
                [memory_id],
            ).fetchone()
        if row is None:
            raise StorageError(f"There is no memory {memory_id}; `octavo memory list` shows their ids.")
        return _memory(row)

    def resolve(self, prefix: str) -> Memory:
        """The one memory whose id begins with `prefix`. Raises StorageError if there is none, or more than one."""
        prefix = storable(prefix).strip().lower()
        if len(prefix) < _SHORTEST_PREFIX:
            raise StorageError(f"An id needs at least {_SHORTEST_PREFIX} characters to be found by; got {prefix!r}.")
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT id FROM memories WHERE substr(id, 1, ?) = ? LIMIT 2", [len(prefix), prefix]
            ).fetchall()
        if len(rows) > 1:
            raise StorageError(f"More than one memory has an id that begins with {prefix}; give more of it.")
        return self.get(rows[0][0] if rows else prefix)

    def list(self, *, day: str | None = None, limit: int = -1) -> builtins.list[Memory]:
        """What is believed now, the newest first; with `day`, only what holds on that day."""
        condition, values = ("1", []) if day is None else (_VALID, [day, day])
        with self.database.reading() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE {condition} ORDER BY memories.seq DESC LIMIT ?", [*values, limit]
            ).fetchall()
        return [_memory(row) for row in rows]

    def as_of(self, recorded: str, day: str) -> builtins.list[Memory]:
        """What was believed at the moment `recorded` to hold on `day`, the oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(
                f"SELECT {MEMORY_COLUMNS} FROM memories JOIN beliefs ON beliefs.memory_id = memories.id "  # noqa: S608
                f"WHERE recorded_from <= ? AND (recorded_to IS NULL OR recorded_to > ?) AND {_VALID} "
                "ORDER BY memories.seq",
                [recorded, recorded, day, day],
            ).fetchall()
        return [_memory(row) for row in rows]

    def in_slots(self, subject: str, slots: Sequence[str], day: str) -> builtins.list[Memory]:
        """What holds on `day` of a subject in any of the slots, or in a slot below one of them ("dose:...")."""
        condition = " OR ".join("slot = ? OR slot LIKE ? || ':%'" for _ in slots)
        values = [value for slot in slots for value in (slot, slot)]
        with self.database.reading() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE subject = ? AND ({condition}) AND {_VALID} ORDER BY memories.seq DESC",
                [subject, *values, day, day],
            ).fetchall()
        return [_memory(row) for row in rows]

    def search(self, text: str, day: str | None, limit: int) -> builtins.list[tuple[Memory, float]]:
        """Up to `limit` memories that share a word or a concept with `text`, the best match (BM25) first."""
        expression = any_word_expression(text)
        if not expression:
            return []
        condition, values = ("1", []) if day is None else (_VALID, [day, day])
        with self.database.reading() as connection:
            rows = connection.execute(
                f"SELECT {MEMORY_COLUMNS}, rank FROM memories_fts JOIN memories ON memories.seq = memories_fts.rowid "  # noqa: S608
                "JOIN beliefs ON beliefs.memory_id = memories.id AND beliefs.recorded_to IS NULL "
                f"WHERE memories_fts MATCH ? AND {condition} ORDER BY rank LIMIT ?",
                [expression, *values, limit],
            ).fetchall()
        return [(_memory(row[:-1]), -float(row[-1])) for row in rows]

    def believe(
        self, memory_id: str, valid_from: str | None, valid_to: str | None, *, retracted: bool = False
    ) -> dict[str, Any]:
        """Replace what is believed about when a memory holds; `retracted`: that it was never so.

        Returns the belief it had, for `restore`. Raises StorageError if there is no such memory.
        """
        now = moment()
        with self.database.atomic() as connection:
            row = connection.execute(
                "UPDATE beliefs SET recorded_to = ? WHERE memory_id = ? AND recorded_to IS NULL "
                "RETURNING valid_from, valid_to",
                [now, memory_id],
            ).fetchone()
            if row is None and not connection.execute("SELECT 1 FROM memories WHERE id = ?", [memory_id]).fetchone():
                raise StorageError(f"There is no memory {memory_id}.")
            if not retracted:
                connection.execute(
                    "INSERT INTO beliefs (memory_id, valid_from, valid_to, recorded_from) VALUES (?, ?, ?, ?)",
                    [memory_id, valid_from, valid_to, now],
                )
        return {"memory": memory_id, "before": None if row is None else [row[0], row[1]]}

    def pin(self, memory_id: str, pinned: bool) -> dict[str, Any]:
        """Keep a memory from fading and from being replaced without a question; returns what it was, to restore."""
        with self.database.atomic() as connection:
            row = connection.execute("SELECT pinned FROM memories WHERE id = ?", [memory_id]).fetchone()
            connection.execute("UPDATE memories SET pinned = ? WHERE id = ?", [int(pinned), memory_id])
        return {"pin": memory_id, "before": bool(row and row[0])}

    def add_evidence(self, evidence: Evidence) -> bool:
        """Keep where a memory was said; False if that was known already."""
        with self.database.atomic() as connection:
            cursor = connection.execute(
                "INSERT OR IGNORE INTO memory_evidence (memory_id, message_id, quote, said) VALUES (?, ?, ?, ?)",
                [evidence.memory_id, evidence.message_id, storable(evidence.quote), evidence.said],
            )
        return cursor.rowcount > 0

    def evidence(self, memory_id: str) -> builtins.list[Evidence]:
        """Where a memory was said, the oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT memory_id, message_id, quote, said FROM memory_evidence WHERE memory_id = ? ORDER BY seq",
                [memory_id],
            ).fetchall()
        return [Evidence(*row) for row in rows]

    def add_conflict(self, old: str, new: str, verdict: str, reason: str, checked_by: str) -> Conflict:
        """Record that two memories do not go together; the one that is there already, if there is."""
        with self.database.atomic() as connection:
            connection.execute(
                f"INSERT OR IGNORE INTO memory_conflicts ({_CONFLICT}) VALUES (?, ?, ?, ?, ?, ?, ?, 'open')",  # noqa: S608
                [new_id(), old, new, verdict, reason, checked_by, moment()],
            )
            row = connection.execute(
                f"SELECT {_CONFLICT} FROM memory_conflicts WHERE old_id = ? AND new_id = ?",  # noqa: S608
                [old, new],
            ).fetchone()
        return Conflict(*row)

    def conflicts(self, *, memory_id: str | None = None, only_open: bool = False) -> builtins.list[Conflict]:
        """The conflicts recorded, of one memory or all, the newest first."""
        conditions, values = ["1"], builtins.list[Any]()
        if memory_id is not None:
            conditions.append("? IN (old_id, new_id)")
            values.append(memory_id)
        if only_open:
            conditions.append("state = 'open'")
        with self.database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_CONFLICT} FROM memory_conflicts WHERE {' AND '.join(conditions)} ORDER BY id DESC",  # noqa: S608
                values,
            ).fetchall()
        return [Conflict(*row) for row in rows]

    def settle(self, conflict_id: str, state: str) -> dict[str, Any]:
        """Set the state of a conflict; returns what it was, for `restore`."""
        with self.database.atomic() as connection:
            row = connection.execute("SELECT state FROM memory_conflicts WHERE id = ?", [conflict_id]).fetchone()
            if row is None:
                raise StorageError(f"There is no conflict {conflict_id}; `octavo memory conflicts` shows their ids.")
            connection.execute("UPDATE memory_conflicts SET state = ? WHERE id = ?", [state, conflict_id])
        return {"conflict": conflict_id, "before": row[0]}

    def forget(self, memory_id: str, keys: Iterable[str]) -> None:
        """Delete a memory with everything about it, and leave tombstones of `keys`: it is known when it comes back."""
        with self.database.atomic() as connection:
            row = connection.execute("SELECT seq FROM memories WHERE id = ?", [memory_id]).fetchone()
            if row is None:
                raise StorageError(f"There is no memory {memory_id}.")
            for key in keys:
                connection.execute(
                    "INSERT OR IGNORE INTO memory_tombstones VALUES (?, ?)", [self._hash(connection, key), moment()]
                )
            connection.execute("DELETE FROM memories_fts WHERE rowid = ?", [row[0]])
            connection.execute("INSERT INTO memories_fts (memories_fts) VALUES ('optimize')")
            connection.execute("DELETE FROM memories WHERE seq = ?", [row[0]])
        self.database.checkpoint()

    def is_forgotten(self, keys: Iterable[str]) -> bool:
        """True if one of `keys` was left as a tombstone."""
        with self.database.reading() as connection:
            hashes = [self._hash(connection, key) for key in keys]
            return any(
                connection.execute("SELECT 1 FROM memory_tombstones WHERE hash = ?", [known]).fetchone()
                for known in hashes
            )

    def unforget(self, keys: Iterable[str]) -> None:
        """Take tombstones away: the person said so."""
        with self.database.atomic() as connection:
            for key in keys:
                connection.execute("DELETE FROM memory_tombstones WHERE hash = ?", [self._hash(connection, key)])

    def hashed(self, text: str) -> bytes:
        """A hash of `text` that only this database can make."""
        with self.database.reading() as connection:
            return self._hash(connection, text)

    def _hash(self, connection: Connection, text: str) -> bytes:
        secret: bytes = connection.execute("SELECT key FROM memory_secret").fetchone()[0]
        return hmac.digest(secret, storable(text).encode(), hashlib.sha256)


def moment() -> str:
    """Now, as times are kept."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _memory(row: Sequence[Any]) -> Memory:
    values = list(row)
    values[6] = json.loads(values[6])
    values[9] = bool(values[9])
    return Memory(*values)
