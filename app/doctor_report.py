"""What an examination results in."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Problem:
    """Something wrong, and what a person can do about it; a sentence each."""

    what: str
    remedy: str


@dataclass
class Report:
    """Facts, part -> label -> plain value, in the order they were looked at; and the problems met on the way."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, what: str, remedy: str) -> None:
        self.problems.append(Problem(what, remedy))

    def as_json(self) -> dict[str, Any]:
        return {**self.facts, "problems": [asdict(problem) for problem in self.problems]}
