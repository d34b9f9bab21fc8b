"""What to remember of a conversation: only what the person wrote themselves, each with a verbatim quote.

Code, quotations, pasted text, blocks of recalled memories and sentences copied from an answer are not the
person's own statements about themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from octavo.app.memory.check import Check
from octavo.app.memory.claims import Claim
from octavo.app.memory.fence import without_fences
from octavo.app.memory.keeper import Keeper, Outcome, forget_keys, quote_key
from octavo.app.memory.normalise import Statement, statements
from octavo.app.memory.own_words import typed_text

if TYPE_CHECKING:
    from octavo.storage.records import StoredMessage

_STATEMENT = 300
_COPIED = 8  # characters from which a clause that an earlier answer holds too is a copy of it
_GENERIC = frozenset(("is", "do"))
_NOTHING = re.compile(
    r"^(?:it|this|that|these|those|them|him|her|you|your .*|one|something|anything|nothing|everything|none|so|here|"
    r"there|what.*|how.*|it is .*|but .*|says? .*|thanks?|.*(?:error|exception)|headache|fever|hangover|"
    r"(?:list|dict|dictionary|set|array|string|number|couple|bunch|file|dataframe|column|row|loop|variable|regex|"
    r"query)s?(?: .*)?|"
    r"which.*|who.*|.*\b(?:question|problem|issue|bug|error|idea|look|meeting|feeling|doubt|file|list|function|class|"
    r"exception|task|text|sentence|paragraph|table|script|answer|suggestion|way|sense|time|trouble|chance|favou?r|"
    r"request|"
    r"point|choice|option|code|approach|version|the (?:first|second|last|other) .*)|问题|疑问|这个?|那个?|它|你的.*)$"
)


def refusal(quote: str, message: StoredMessage, answers: Iterable[str] = ()) -> str | None:
    """Why a quote may not become a memory of this message, or None if it may."""
    if message.role != "user":
        return "It is not from a message of the user."
    if not quote.strip() or quote not in message.text:
        return "The quote is not in the message."
    if quote not in typed_text(without_fences(message.text)):
        return "The quote is from code, a quotation, pasted text or recalled memories."
    if len(quote) >= _COPIED and any(quote.casefold() in answer.casefold() for answer in answers):
        return "The quote was copied from an answer."
    return None


def worth_keeping(claim: Claim) -> bool:
    """True for a lasting fact about the person, somebody they name, or a project of theirs."""
    if not claim.slot or claim.base_slot in _GENERIC or claim.modality != "stated" or claim.is_implied:
        return False
    if not claim.subject.startswith(("user", "person:", "project:")) or _NOTHING.match(claim.value):
        return False
    return bool(claim.value) or claim.quantity is not None


def extract(message: StoredMessage, answers: Sequence[str] = ()) -> list[Statement]:
    """The statements of a message that are worth keeping, with the claims that are; relative dates count from its
    day."""
    said = datetime.fromisoformat(message.created)
    found = []
    for statement in statements(typed_text(without_fences(message.text)), said.date()):
        quote = message.text[statement.start : statement.end]
        kept = tuple(claim for claim in statement.claims if worth_keeping(claim))
        implied = tuple(claim for claim in statement.claims if claim.is_implied)
        if kept and len(quote) <= _STATEMENT and refusal(quote, message, answers) is None:
            found.append(replace(statement, quote=quote, claims=(*kept, *implied)))
    return found


def remember_message(keeper: Keeper, message: StoredMessage, answers: Sequence[str] = ()) -> list[Outcome]:
    """Extract from a message and write it down, all or nothing; what was forgotten does not come back, and no message
    is read twice."""
    outcomes: list[Outcome] = []
    if message.role != "user" or keeper.marks.has(message.id):
        return outcomes
    said = datetime.fromisoformat(message.created)
    found = extract(message, answers)
    if found:
        keeper.read_ahead(found, said)
    with keeper.memories.database.atomic():
        keeper.marks.put(message.id)
        for statement in found:
            keys = forget_keys(statement) | {quote_key(message.id, statement.quote)}
            if keeper.memories.is_forgotten(keys):
                continue
            passing = tuple(claim for claim in statement.claims if not _is_passing(claim))
            if all(claim.is_implied for claim in passing) and not _alarms(keeper, statement, said):
                continue
            outcomes += keeper.write(statement, said, message_id=message.id, source="extracted")
    return outcomes


def _is_passing(claim: Claim) -> bool:
    """True for what somebody ate once: of interest only where it does not fit."""
    return claim.is_event and claim.affirmed and claim.base_slot == "consume"


def _alarms(keeper: Keeper, statement: Statement, said: datetime) -> bool:
    checks: list[Check] = keeper.check_statement(statement, said)
    return any(check.verdict == "tension" for check in checks)
