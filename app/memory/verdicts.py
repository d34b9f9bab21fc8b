"""What a new claim means beside an old one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["duplicate", "update", "contradiction", "tension", "compatible"]

# The gravest first: what decides where several old claims are met.
GRAVITY: tuple[Verdict, ...] = ("tension", "contradiction", "update", "duplicate", "compatible")
SUPERSEDING: frozenset[Verdict] = frozenset(("update", "contradiction"))


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and its reason, one sentence. `decided` is False where no rule said anything; `confirm` asks the person
    to agree."""

    verdict: Verdict
    reason: str
    decided: bool = True
    confirm: bool = False


def gravest(findings: list[Finding]) -> Finding:
    """The finding that counts among several about one new claim."""
    return min(findings, key=lambda finding: GRAVITY.index(finding.verdict))
