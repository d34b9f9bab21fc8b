"""A new claim checked against what is remembered: rules first, then meaning where no rule spoke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Protocol

from octavo.app.memory.candidates import Nearest, candidates
from octavo.app.memory.claims import Claim
from octavo.app.memory.quantities import counts
from octavo.app.memory.rules import compare
from octavo.app.memory.verdicts import Finding, Verdict, gravest

if TYPE_CHECKING:
    from octavo.storage.memories import Memories
    from octavo.storage.memory_records import Memory

RULES = "rules"
THRESHOLD = 0.85


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says of a pair, each from 0 to 1, in both directions at once: the higher contradiction, the lower
    entailment."""

    contradiction: float
    entailment: float


class Judge(Protocol):
    """A model that reads pairs of statements."""

    @property
    def name(self) -> str:
        """What to call it in a verdict."""

    @property
    def threshold(self) -> float:
        """From which score on it is believed."""

    def reads(self, text: str) -> bool:
        """False for text in a language that it was not trained on: what it says of it is noise."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[Scores]:
        """Scores of (old, new) pairs, in order."""


@dataclass(frozen=True, slots=True)
class Met:
    """An old memory, and how the new claim goes with it."""

    memory: Memory
    finding: Finding
    checked_by: str


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, every candidate it was compared with, and the finding that counts.

    `num_unread` pairs were decided by no rule, and there was no model to read them.
    """

    text: str
    claim: Claim
    met: tuple[Met, ...]
    finding: Finding
    checked_by: str
    num_unread: int

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict

    def with_verdict(self, *verdicts: Verdict) -> list[Met]:
        """The old memories that have one of the verdicts."""
        return [met for met in self.met if met.finding.verdict in verdicts]


def check_claim(
    memories: Memories,
    claim: Claim,
    text: str,
    today: date,
    *,
    implied: Sequence[Claim] = (),
    judge: Judge | None = None,
    nearest: Nearest | None = None,
) -> Check:
    """Compare a claim with the memories it may not fit. `text` are the words it was said in, `implied` what they
    presuppose: that is never written down, but raises an alarm where it does not fit."""
    found = {memory.id: memory for memory in candidates(memories, claim, text, today, nearest)}
    for other in implied:
        found |= {memory.id: memory for memory in candidates(memories, other, "", today)}
    pairs = [(memory, with_implied(Claim.from_document(memory.claim), claim, implied)) for memory in found.values()]
    met, num_unread = judged(pairs, claim, text, judge)
    finding = gravest([m.finding for m in met]) if met else Finding("compatible", "Nothing remembered is about it.")
    # A model that had nothing to read has checked nothing.
    checked_by = next((m.checked_by for m in met if m.checked_by != RULES), RULES)
    return Check(text, claim, tuple(met), finding, checked_by, num_unread)


def with_implied(old: Claim, claim: Claim, implied: Sequence[Claim]) -> Finding:
    """The finding by rules on a claim, or on what it presupposes where that does not fit."""
    finding = compare(old, claim)
    if finding.verdict == "compatible":
        for other in implied:
            presupposed = compare(old, other)
            if presupposed.verdict in ("tension", "contradiction"):
                return Finding("tension", f"It presupposes what does not fit: {presupposed.reason}")
    return finding


def judged(
    pairs: Sequence[tuple[Memory, Finding]], claim: Claim, text: str, judge: Judge | None
) -> tuple[list[Met], int]:
    """The findings, with those that no rule decided read by the model; and how many were left unread, for want of a
    model or of the language."""
    open_pairs = [
        (memory, finding)
        for memory, finding in pairs
        if not finding.decided and may_be_read(Claim.from_document(memory.claim), claim)
    ]
    scores = {}
    if judge is not None and open_pairs and judge.reads(text):
        legible = [memory for memory, _ in open_pairs if judge.reads(memory.text)]
        read = judge.scores([(memory.text, text) for memory in legible])
        scores = {memory.id: score for memory, score in zip(legible, read, strict=True)}
    met = []
    for memory, finding in pairs:
        score = scores.get(memory.id)
        if score is None or judge is None:
            met.append(Met(memory, finding, RULES))
        else:
            said = _read(score, judge, finding, memory.text, text)
            met.append(Met(memory, said, f"{RULES} and {judge.name}"))
    return met, len(open_pairs) - len(scores)


def may_be_read(old: Claim, new: Claim) -> bool:
    """True for a pair whose words a model may compare: one subject, one time, both stated."""
    one_subject = old.subject == new.subject or "" in (old.subject, new.subject)
    return one_subject and old.tense == new.tense and old.modality == new.modality == "stated"


def _read(score: Scores, judge: Judge, finding: Finding, old: str, new: str) -> Finding:
    """A model alone never replaces anything: what it calls a contradiction is a tension, for the person to decide."""
    if score.contradiction >= judge.threshold:
        return Finding("tension", f"{judge.name} reads them as contradicting each other ({score.contradiction:.2f}).")
    if score.entailment >= judge.threshold and _numbers(old) == _numbers(new):
        return Finding("duplicate", f"{judge.name} reads them as saying the same ({score.entailment:.2f}).")
    return Finding(finding.verdict, f"{judge.name} reads no contradiction ({score.contradiction:.2f}).")


def _numbers(text: str) -> list[float]:
    return sorted(number for number, _ in counts(text))
