"""What `octavo memory` prints: memories, verdicts, conflicts and lines of the log, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
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


def line_document(line: Correction) -> dict[str, Any]:
    """A line of the log in values that JSON has."""
    return asdict(line) | {"changes": [dict(change) for change in line.changes]}


def conflict_document(keeper: Keeper, conflict: Conflict) -> dict[str, Any]:
    """A conflict with both its memories."""
    return asdict(conflict) | {
        "old": memory_document(keeper.memories.get(conflict.old_id)),
        "new": memory_document(keeper.memories.get(conflict.new_id)),
    }
