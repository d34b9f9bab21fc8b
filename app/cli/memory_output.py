"""What `octavo memory` prints: memories, verdicts, conflicts and lines of the log, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.memory.telling import told
from octavo.app.memory.verdicts import GRAVITY

if TYPE_CHECKING:
    from octavo.app.memory.check import Check
    from octavo.app.memory.keeper import Keeper, Outcome
    from octavo.storage.memory_records import Conflict, Correction, Memory


def print_verdicts(checks: Sequence[Check], documents: list[dict[str, Any]], *, as_json: bool) -> None:
    """One document for what was said: the gravest claim's, with all of them under "claims"; or sentences."""
    if as_json:
        first = min(documents, key=lambda document: GRAVITY.index(document["verdict"]))
        echo_json(first | {"claims": documents})
        return
    for check in checks:
        for line in told(check):
            click.echo(line)
    found_by = documents[0]["found_by"]
    without = "" if " and " in found_by else " (no sentence embedder is installed)"
    click.echo(f"    compared with what {found_by} found{without}")


def became_of(outcomes: Sequence[Outcome]) -> str:
    """What is remembered now, and how to change that."""
    verdicts = {outcome.check.verdict for outcome in outcomes}
    back = "`octavo memory undo` takes it back."
    if "tension" in verdicts:
        return f"Both are remembered; `octavo memory conflicts` lists what waits for your decision. {back}"
    if verdicts & {"update", "contradiction"}:
        return f"Remembered, in place of what it replaces. {back}"
    return (
        f"Remembered already; this was added to it as evidence. {back}"
        if verdicts == {"duplicate"}
        else f"Remembered. {back}"
    )


def check_document(check: Check) -> dict[str, Any]:
    """A check as `octavo memory check --json` prints it."""
    conflicts = check.with_verdict("tension", "contradiction", "update")
    same = check.with_verdict("duplicate")
    return {
        "verdict": check.verdict,
        "reason": check.finding.reason,
        "memory": same[0].memory.id if same else None,
        "conflicts": [
            {
                "memory": met.memory.id,
                "text": met.memory.text,
                "verdict": met.finding.verdict,
                "reason": met.finding.reason,
                "checked_by": met.checked_by,
            }
            for met in conflicts
        ],
        "checked_by": check.checked_by,
        "confirm": check.finding.confirm,
        "num_unread": check.num_unread,
        "claim": check.claim.document(),
    }


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """A check with the memory that holds the claim now, and the line of the log."""
    document = check_document(outcome.check)
    if outcome.memory is not None:
        document["memory"] = outcome.memory.id
    return document | {"log": None if outcome.correction is None else outcome.correction.seq}


def memory_document(memory: Memory) -> dict[str, Any]:
    """A memory in values that JSON has."""
    return asdict(memory) | {"claim": dict(memory.claim)}


def line_document(line: Correction, texts: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """A line of the log in values that JSON has; `texts` are those of the memories it names that are there."""
    return asdict(line) | {
        "changes": [dict(change) for change in line.changes],
        "old": texts.get(line.old_id or ""),
        "new": texts.get(line.new_id or ""),
    }


def texts_of(keeper: Keeper, lines: Sequence[Correction]) -> dict[str, str]:
    """The texts of the memories that lines of the log name; a forgotten one has none."""
    from octavo.storage.errors import StorageError

    texts = {}
    for memory_id in {key for line in lines for key in (line.old_id, line.new_id) if key}:
        with suppress(StorageError):
            texts[memory_id] = keeper.memories.get(memory_id).text
    return texts


def conflict_document(keeper: Keeper, conflict: Conflict) -> dict[str, Any]:
    """A conflict with both its memories."""
    return asdict(conflict) | {
        "old": memory_document(keeper.memories.get(conflict.old_id)),
        "new": memory_document(keeper.memories.get(conflict.new_id)),
    }
