"""The log of corrections: what replaced what, when, why, on which evidence; and how each is undone.

A correction is kept as the changes it made, each with what was there before. Undoing puts that back, and is itself
a line of the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from octavo.storage.errors import StorageError
from octavo.storage.memories import Memories, moment
from octavo.storage.memory_records import CORRECTION_COLUMNS, Correction, CorrectionKind

if TYPE_CHECKING:
    from octavo.storage.database import Database

_UNDOABLE = ("add", "evidence", "update", "contradiction", "tension", "resolve")


class CorrectionLog:
    """The corrections of a database, the newest first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._memories = Memories(database)

    def write(
        self,
        kind: CorrectionKind,
        *,
        old_id: str | None,
        new_id: str | None,
        reason: str,
        checked_by: str,
        evidence: str,
        changes: Sequence[Mapping[str, Any]],
    ) -> Correction:
        """Add a line. `changes` are what `Memories` returned when it made them, in order."""
        with self._database.atomic() as connection:
            seq = connection.execute(
                "INSERT INTO memory_corrections (at, kind, old_id, new_id, reason, checked_by, evidence, changes) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq",
                [moment(), kind, old_id, new_id, reason, checked_by, evidence, json.dumps([dict(c) for c in changes])],
            ).fetchone()[0]
        return self.get(seq)

    def get(self, seq: int) -> Correction:
        """The line of this number. Raises StorageError if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(
                f"SELECT {CORRECTION_COLUMNS} FROM memory_corrections WHERE seq = ?",  # noqa: S608
                [seq],
            ).fetchone()
        if row is None:
            raise StorageError(f"The log has no line {seq}; `octavo memory log` shows what it has.")
        return _correction(row)

    def list(self, limit: int = -1) -> list[Correction]:
        """The lines, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {CORRECTION_COLUMNS} FROM memory_corrections ORDER BY seq DESC LIMIT ?",  # noqa: S608
                [limit],
            ).fetchall()
        return [_correction(row) for row in rows]

    def undo(self, seq: int | None = None) -> Correction:
        """Undo a line, by default the newest that is not undone yet; returns the line that was undone.

        Raises StorageError where there is nothing to undo, or a later line built on it and must be undone first.
        """
        with self._database.atomic() as connection:
            line = self._newest() if seq is None else self.get(seq)
            if line.kind not in _UNDOABLE:
                raise StorageError(f"Line {line.seq} of the log ({line.kind}) cannot be undone: its content is gone.")
            if line.undone is not None:
                raise StorageError(f"Line {line.seq} of the log was undone already.")
            touched = {line.old_id, line.new_id} - {None}
            later = next((c for c in self.list() if c.seq > line.seq and self._builds_on(c, touched)), None)
            if later is not None:
                raise StorageError(f"Line {later.seq} of the log came after it and must be undone first.")
            for change in reversed(line.changes):
                self._restore(change)
            connection.execute("UPDATE memory_corrections SET undone = ? WHERE seq = ?", [moment(), line.seq])
            self.write(
                "undo",
                old_id=line.old_id,
                new_id=line.new_id,
                reason=f"Undone: {line.reason}",
                checked_by=line.checked_by,
                evidence=line.evidence,
                changes=[{"undid": line.seq}],
            )
        return self.get(line.seq)

    def scrub(self, memory_id: str, reason: str) -> None:
        """Take what the lines quote of a memory out of the log; the lines stay."""
        with self._database.atomic() as connection:
            connection.execute(
                "UPDATE memory_corrections SET reason = ?, evidence = '', changes = '[]', undone = coalesce(undone, ?) "
                "WHERE ? IN (old_id, new_id)",
                [reason, moment(), memory_id],
            )

    def _newest(self) -> Correction:
        for line in self.list():
            if line.undone is None and line.kind in _UNDOABLE:
                return line
        raise StorageError("There is nothing to undo.")

    def _builds_on(self, line: Correction, touched: set[str | None]) -> bool:
        return line.undone is None and line.kind in _UNDOABLE and bool(touched & {line.old_id, line.new_id})

    def _restore(self, change: Mapping[str, Any]) -> None:
        if "memory" in change:
            before = change["before"]
            self._memories.believe(change["memory"], *(before or (None, None)), retracted=before is None)
        elif "pin" in change:
            self._memories.pin(change["pin"], change["before"])
        elif "conflict" in change:
            self._memories.settle(change["conflict"], change["before"])
        elif "evidence" in change:
            with self._database.atomic() as connection:
                connection.execute(
                    "DELETE FROM memory_evidence WHERE memory_id = ? AND message_id = ? AND quote = ?",
                    change["evidence"],
                )


def _correction(row: Sequence[Any]) -> Correction:
    values = list(row)
    values[-1] = json.loads(values[-1])
    return Correction(*values)
