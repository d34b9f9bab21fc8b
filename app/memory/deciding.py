"""What the person decides about two memories that do not go together, and when a memory stops holding."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper
    from octavo.storage.memories import Memories
    from octavo.storage.memory_records import Correction

Keep: TypeAlias = Literal["old", "new", "both"]


def decide(keeper: Keeper, conflict_id: str, keep: str) -> Correction:
    """Decide a conflict, by the beginning of its id: what is kept holds again, what is not stops holding today.

    Raises AppError or StorageError.
    """
    memories = keeper.memories
    with memories.database.atomic():
        found = [conflict for conflict in memories.conflicts() if conflict.id.startswith(conflict_id)]
        if len(found) != 1 or keep not in get_args(Keep):
            raise AppError(f"There is no conflict {conflict_id}; `octavo memory conflicts` shows their ids.")
        (conflict,) = found
        lost = {"old": conflict.new_id, "new": conflict.old_id}.get(keep)
        changes = [memories.settle(conflict.id, f"kept {keep}")]
        for memory_id in (conflict.old_id, conflict.new_id):
            if memory_id == lost:
                changes += [memories.pin(memory_id, False), close(memories, memory_id, date.today())]
            elif (memory := memories.get(memory_id)).valid_to is not None:
                changes.append(memories.believe(memory_id, memory.valid_from, None))
        return keeper.log.write(
            "resolve",
            old_id=conflict.old_id,
            new_id=conflict.new_id,
            reason=f"The person kept {keep}: {conflict.reason}",
            checked_by=conflict.checked_by,
            evidence="",
            changes=changes,
        )


def close(memories: Memories, memory_id: str, day: date) -> dict[str, Any]:
    """Believe that a memory holds up to `day` and no longer; returns what was believed before."""
    start = memories.get(memory_id).valid_from
    return memories.believe(memory_id, min(start, day.isoformat()) if start else None, day.isoformat())
