"""What is kept of a memory, as values. Times are ISO 8601, UTC; days of validity are ISO dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Source: TypeAlias = Literal["user", "extracted", "import"]
CorrectionKind: TypeAlias = Literal[
    "add", "evidence", "update", "contradiction", "tension", "resolve", "undo", "forget"
]


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered statement, in the words it was said in.

    `claim` is the statement in comparable form. It holds from `valid_from` up to `valid_to` (None: not known), as
    recorded since `recorded_from`; an older belief ends at `recorded_to`.
    """

    id: str
    text: str
    language: str
    subject: str
    slot: str
    value: str
    claim: Mapping[str, Any]
    source: Source
    said: str
    pinned: bool
    valid_from: str | None
    valid_to: str | None
    recorded_from: str
    recorded_to: str | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a memory was said: the words themselves, and the message they are in; "" for one typed in by hand."""

    memory_id: str
    message_id: str
    quote: str
    said: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two memories that do not go together; `state` is "open", "kept both", "kept old" or "kept new"."""

    id: str
    old_id: str
    new_id: str
    verdict: str
    reason: str
    checked_by: str
    created: str
    state: str


@dataclass(frozen=True, slots=True)
class Correction:
    """One line of the log: what was done, to which memories, why, on which evidence, and whether it was undone."""

    seq: int
    at: str
    kind: CorrectionKind
    old_id: str | None
    new_id: str | None
    reason: str
    checked_by: str
    evidence: str
    undone: str | None
    changes: Sequence[Mapping[str, Any]]


MEMORY_COLUMNS = (
    "memories.id, memories.text, memories.language, memories.subject, memories.slot, memories.value, memories.claim, "
    "memories.source, memories.said, memories.pinned, beliefs.valid_from, beliefs.valid_to, beliefs.recorded_from, "
    "beliefs.recorded_to"
)
CORRECTION_COLUMNS = "seq, at, kind, old_id, new_id, reason, checked_by, evidence, undone, changes"
