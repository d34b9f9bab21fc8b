"""Memories as one JSON document, and such a document taken in again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.errors import AppError
from octavo.app.memory.check import check_claim
from octavo.app.memory.claims import Claim
from octavo.app.memory.exposure import reach
from octavo.app.memory.keeper import text_key
from octavo.storage.errors import StorageError
from octavo.storage.memory_records import Evidence

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper
    from octavo.storage.memories import Memories

FORMAT = "octavo-memories-1"


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of the memories of a document."""

    added: int
    known: int
    forgotten: int


def exported(memories: Memories) -> dict[str, Any]:
    """Everything believed now, with evidence and conflicts, in values that JSON has; the oldest first."""
    return {
        "format": FORMAT,
        "memories": [
            asdict(memory)
            | {"claim": dict(memory.claim), "evidence": [asdict(item) for item in memories.evidence(memory.id)]}
            for memory in reversed(memories.list())
        ],
        "conflicts": [asdict(conflict) for conflict in memories.conflicts()],
    }


def read_export(path: Path) -> dict[str, Any]:
    """The document in a file. Raises AppError if it is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AppError(f"{path} cannot be read as an export of memories: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise AppError(f"{path} is no export of memories; `octavo memory export` makes one.")
    return document


def take_in(keeper: Keeper, document: Mapping[str, Any]) -> TakenIn:
    """Add what a document holds and is neither known nor forgotten here, all or nothing; what does not fit is a
    conflict, and replaces nothing. Raises AppError."""
    added = known = forgotten = 0
    memories = keeper.memories
    with memories.database.atomic():
        for entry in document["memories"]:
            try:
                claim = Claim.from_document(entry["claim"])
                if memories.is_forgotten((claim.key(), text_key(entry["text"]))):
                    forgotten += 1
                elif _is_known(memories, entry["id"]):
                    known += 1
                else:
                    _add(keeper, entry, claim)
                    added += 1
            except (KeyError, TypeError, ValueError) as error:
                raise AppError(
                    f"Memory {added + known + forgotten + 1} of the export is incomplete: {error}."
                ) from None
        for conflict in document.get("conflicts", ()):
            if _is_known(memories, conflict["old_id"]) and _is_known(memories, conflict["new_id"]):
                made = memories.add_conflict(
                    conflict["old_id"],
                    conflict["new_id"],
                    conflict["verdict"],
                    conflict["reason"],
                    conflict["checked_by"],
                )
                memories.settle(made.id, conflict["state"])
    return TakenIn(added, known, forgotten)


def _is_known(memories: Memories, memory_id: str) -> bool:
    try:
        memories.get(memory_id)
    except StorageError:
        return False
    return True


def _add(keeper: Keeper, entry: Mapping[str, Any], claim: Claim) -> None:
    memory = keeper.memories.add(
        entry["text"],
        language=entry["language"],
        claim=entry["claim"],
        concepts=reach(claim),
        source="import",
        said=entry["said"],
        valid_from=entry["valid_from"],
        valid_to=entry["valid_to"],
        memory_id=entry["id"],
    )
    for item in entry["evidence"]:
        keeper.memories.add_evidence(Evidence(memory.id, item["message_id"], item["quote"], item["said"]))
    if entry["pinned"]:
        keeper.memories.pin(memory.id, True)
    for met in check_claim(keeper.memories, claim, entry["text"], date.today()).met:
        # What is taken in was not said here, so it replaces nothing.
        if met.memory.id != memory.id and met.finding.verdict in ("tension", "contradiction", "update"):
            keeper.memories.add_conflict(
                met.memory.id, memory.id, met.finding.verdict, met.finding.reason, met.checked_by
            )
    keeper.log.write(
        "add",
        old_id=None,
        new_id=memory.id,
        reason="Taken in from an export.",
        checked_by="",
        evidence=entry["text"],
        changes=[{"memory": memory.id, "before": None}],
    )
