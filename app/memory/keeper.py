"""The long-term memory: checks what is said against what is remembered, and writes it down in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from octavo.app.errors import AppError
from octavo.app.memory.candidates import Nearest
from octavo.app.memory.check import Check, Judge, Met, check_claim
from octavo.app.memory.claims import Claim
from octavo.app.memory.deciding import close
from octavo.app.memory.exposure import reach
from octavo.app.memory.normalise import Statement, statements
from octavo.app.memory.verdicts import SUPERSEDING, gravest
from octavo.storage.memories import Memories
from octavo.storage.memory_log import CorrectionLog
from octavo.storage.memory_reading import ReadMarks
from octavo.storage.memory_records import Evidence

if TYPE_CHECKING:
    from octavo.storage.database import Database
    from octavo.storage.memory_records import Correction, CorrectionKind, Memory, Source

_SLACK = timedelta(days=62)
_NOT_FACTS = {
    "question": "it is a question",
    "hypothetical": "it is not stated as a fact",
    "reported": "somebody else is said to have said it",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one claim: the check, the memory that holds it now, and the line of the log."""

    check: Check
    memory: Memory | None
    correction: Correction | None


class Keeper:
    """Remembers, checks, forgets and undoes. `judge` and `nearest` are used where there are models for them."""

    def __init__(self, database: Database, *, judge: Judge | None = None, nearest: Nearest | None = None) -> None:
        self.memories = Memories(database)
        self.log = CorrectionLog(database)
        self.marks = ReadMarks(database)
        self.judge = judge
        self.nearest = nearest
        self._database = database

    def check(self, text: str, said: datetime | None = None) -> list[Check]:
        """What `add` would find, without writing anything. Raises AppError if the text states nothing."""
        said = said or datetime.now(UTC)
        stated = _stated(text, said)
        self._fill(said)
        return [check for statement in stated for check in self.check_statement(statement, said)]

    def check_statement(self, statement: Statement, said: datetime) -> list[Check]:
        """The checks of a statement's claims."""
        return [self._check(claim, statement, said.date()) for claim in statement.claims if not claim.is_implied]

    def add(self, text: str, said: datetime | None = None, *, message_id: str = "") -> list[Outcome]:
        """Remember what a text states, because the person asks for it; one outcome a claim.

        What was forgotten before may come back this way. Raises AppError if the text states nothing.
        """
        said = said or datetime.now(UTC)
        outcomes = []
        stated = _stated(text, said)
        self.read_ahead(stated, said)
        with self._database.atomic():
            for statement in stated:
                self.memories.unforget(forget_keys(statement))
                outcomes += self._write_claims(statement, said, message_id, "user")
        return outcomes

    def write(self, statement: Statement, said: datetime, *, message_id: str, source: Source) -> list[Outcome]:
        """Check the claims of a statement and write them down, in one transaction; `read_ahead` goes before it."""
        with self._database.atomic():
            return self._write_claims(statement, said, message_id, source)

    def forget(self, memory_id: str) -> None:
        """Delete a memory and everything about it; what it said is not remembered again unless the person asks."""
        with self._database.atomic():
            memory = self.memories.get(memory_id)
            keys = {Claim.from_document(memory.claim).key(), text_key(memory.text)}
            keys |= {quote_key(item.message_id, item.quote) for item in self.memories.evidence(memory_id)}
            self.log.scrub(memory_id, "forgotten")
            self.memories.forget(memory_id, keys)
            self.log.write(
                "forget",
                old_id=memory_id,
                new_id=None,
                reason="The person had it forgotten.",
                checked_by="",
                evidence="",
                changes=[],
            )

    def undo(self, seq: int | None = None) -> Correction:
        """Undo a line of the log, by default the newest. Raises StorageError if it cannot be undone."""
        return self.log.undo(seq)

    def _check(self, claim: Claim, statement: Statement, today: date) -> Check:
        implied = [other for other in statement.claims if other.is_implied]
        return check_claim(
            self.memories, claim, statement.quote, today, implied=implied, judge=self.judge, nearest=self.nearest
        )

    def _write_claims(self, statement: Statement, said: datetime, message_id: str, source: Source) -> list[Outcome]:
        claims = [claim for claim in statement.claims if not claim.is_implied]
        return [self._write(claim, statement, said, message_id, source) for claim in claims]

    def _write(self, claim: Claim, statement: Statement, said: datetime, message_id: str, source: Source) -> Outcome:
        check = self._settled(self._check(claim, statement, said.date()))
        same = check.with_verdict("duplicate")
        if same:
            return self._repeat(check, same[0], statement.quote, message_id, said)
        older = [met for met in check.with_verdict(*SUPERSEDING) if _is_older(claim, met.memory)]
        start, end = _valid(claim, check, older, said.date())
        memory = self.memories.add(
            statement.quote,
            language=statement.language,
            claim=claim.document(),
            concepts=reach(claim),
            source=source,
            said=said.isoformat(),
            valid_from=start,
            valid_to=end,
        )
        self.memories.add_evidence(Evidence(memory.id, message_id, statement.quote, said.isoformat()))
        changes: list[dict[str, Any]] = [{"memory": memory.id, "before": None}]
        replaced = [met for met in check.with_verdict(*SUPERSEDING) if met not in older]
        changes += [close(self.memories, met.memory.id, claim.time.start or said.date()) for met in replaced]
        for met in check.met:
            if met.finding.verdict == "tension" or (met in replaced and met.finding.confirm):
                changes += self._alarm(met, memory)
        return Outcome(check, self.memories.get(memory.id), self._line(check, memory, statement.quote, changes, older))

    def read_ahead(self, stated: Sequence[Statement], said: datetime) -> None:
        """Let the models read before a transaction begins, so that nobody waits for them; what they say is kept."""
        self._fill(said)
        if self.judge is not None:
            for statement in stated:
                self.check_statement(statement, said)

    def _fill(self, said: datetime) -> None:
        if self.nearest is not None:
            self.nearest.fill([memory.id for memory in self.memories.list(day=said.date().isoformat())])

    def _settled(self, check: Check) -> Check:
        """The check without tensions the person has decided to live with."""
        kept = {c.old_id: c.new_id for c in self.memories.conflicts() if c.state == "kept both"}
        same = {met.memory.id for met in check.with_verdict("duplicate")}
        met = tuple(
            m
            for m in check.met
            if not (
                m.finding.verdict == "tension"
                and (kept.get(m.memory.id) in same or any(kept.get(s) == m.memory.id for s in same))
            )
        )
        if len(met) == len(check.met):
            return check
        return replace(check, met=met, finding=gravest([m.finding for m in met]))

    def _repeat(self, check: Check, met: Met, quote: str, message_id: str, said: datetime) -> Outcome:
        evidence = Evidence(met.memory.id, message_id, quote, said.isoformat())
        line = None
        if self.memories.add_evidence(evidence):
            line = self.log.write(
                "evidence",
                old_id=met.memory.id,
                new_id=None,
                reason=met.finding.reason,
                checked_by=check.checked_by,
                evidence=quote,
                changes=[{"evidence": [met.memory.id, message_id, quote]}],
            )
        return Outcome(check, met.memory, line)

    def _alarm(self, met: Met, new: Memory) -> list[dict[str, Any]]:
        conflict = self.memories.add_conflict(
            met.memory.id, new.id, met.finding.verdict, met.finding.reason, met.checked_by
        )
        changes = [{"conflict": conflict.id, "before": "withdrawn"}]
        if met.finding.verdict == "tension":
            changes.append(self.memories.pin(met.memory.id, True))
        return changes

    def _line(
        self, check: Check, memory: Memory, quote: str, changes: Sequence[dict[str, Any]], older: Sequence[Met]
    ) -> Correction:
        met = next((m for m in check.met if m.finding == check.finding), None)
        kind: CorrectionKind = "add"
        if check.verdict in ("update", "contradiction", "tension") and not older:
            kind = check.verdict
        return self.log.write(
            kind,
            old_id=met.memory.id if met is not None and kind != "add" else None,
            new_id=memory.id,
            reason=check.finding.reason,
            checked_by=check.checked_by,
            evidence=quote,
            changes=changes,
        )


def forget_keys(statement: Statement) -> set[str]:
    """What would be a tombstone's keys for what a statement says."""
    return {claim.key() for claim in statement.claims if claim.slot} | {text_key(statement.quote)}


def text_key(text: str) -> str:
    """The words of a memory, as a tombstone knows them."""
    return "text\x1f" + " ".join(text.casefold().strip(" .!。！").split())


def quote_key(message_id: str, quote: str) -> str:
    """A place in a message, as a tombstone knows it."""
    return f"quote\x1f{message_id}\x1f{quote}"


def _stated(text: str, said: datetime) -> list[Statement]:
    """What a text states. Raises AppError with the reason if that is nothing."""
    found = statements(text, said.date())
    stated = [facts(statement) for statement in found]
    kept = [statement for statement in stated if statement.claims]
    if not kept:
        modality = next((claim.modality for statement in found for claim in statement.claims), None)
        raise AppError(f"There is nothing to remember in it: {_NOT_FACTS.get(str(modality), 'it says nothing')}.")
    return kept


def facts(statement: Statement) -> Statement:
    """The statement with those of its claims that are stated as facts, plans and wishes; without any if none is."""
    facts = tuple(claim for claim in statement.claims if claim.modality not in _NOT_FACTS)
    return replace(statement, claims=facts if any(not claim.is_implied for claim in facts) else ())


def _is_older(claim: Claim, memory: Memory) -> bool:
    """True if the new claim is about a time before the memory began to hold: the newest event wins, not the newest
    word."""
    if claim.time.start is None:
        return False
    known = date.fromisoformat(memory.valid_from or memory.said[:10])
    # What was said to hold may have been a few weeks out of date when it was said.
    slack = timedelta() if memory.valid_from else _SLACK
    return claim.time.start + slack < known


def _valid(claim: Claim, check: Check, older: Iterable[Met], today: date) -> tuple[str | None, str | None]:
    start = claim.time.start.isoformat() if claim.time.start else None
    end = claim.time.end.isoformat() if claim.time.end else None
    if end is None:
        end = min((met.memory.valid_from for met in older if met.memory.valid_from), default=None)
    if start is None and end is None and check.with_verdict(*SUPERSEDING):
        start = today.isoformat()
    return start, end
