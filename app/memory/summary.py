"""What is kept of history that left the window: one immutable block a range of messages, drawn from the messages alone.

A line is a sentence of the person (or of an answer, where it says what was agreed), shortened, under what it is: a
goal, a constraint, an open decision, an event, a fact. Beside the sentences stand the names they mention and what they
say as triples (subject, slot, value), with the day it was said; these are not repeated in the prompt. A block is never
made from another block. Each line names its messages, and every number, date and name in it must stand in them, or it
is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from octavo.app.memory.clauses import Piece, plain, sentences
from octavo.app.memory.extract import worth_keeping
from octavo.app.memory.fence import without_fences
from octavo.app.memory.normalise import statements
from octavo.app.memory.own_words import own_text

if TYPE_CHECKING:
    from octavo.storage.records import StoredMessage

Kind: TypeAlias = Literal["goal", "constraint", "decision", "open", "event", "fact", "entity", "triple"]

_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (
        "open",
        r"\b(?:not sure|undecided|still (?:need|have) to decide|not decided|whether|which (?:one|of)|tbd)\b"
        r"|还没决定|不确定|要不要",
    ),
    (
        "constraint",
        r"\b(?:must(?: not)?|mustn't|can(?:no|')t|should(?: not|n't)?|have to|has to|needs? to|at most|at least|"
        r"no more than|only|never|budget|deadline|limit|without|allergic|avoid)\b"
        r"|必须|不能|不可以|最多|至少|只能|预算|截止|过敏|不要",
    ),
    (
        "decision",
        r"\b(?:decided|agreed|we(?:'ll| will)|let's (?:go with|use|take)|i(?:'ll| will)|going with|chose|settled on|"
        r"instead of)\b|决定|就用|选了|改成|同意",
    ),
    (
        "goal",
        r"\b(?:wants? to|would like|i'd like|plan(?:ning)?|goal|aim|trying to|hope to|need (?:a|an|help)|"
        r"looking for|working on)\b|想要?|打算|计划|目标|希望",
    ),
    (
        "event",
        r"\b(?:yesterday|today|tomorrow|last (?:week|month|year)|next (?:week|month|year)|in (?:19|20)\d\d|on "
        r"\w+day|ago)\b|昨天|今天|明天|上周|下周|去年|明年",
    ),
)
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)
_ORDER: tuple[Kind, ...] = ("constraint", "goal", "decision", "open", "event", "fact", "entity", "triple")
_TITLES = {
    "constraint": "Constraints", "goal": "Goals", "decision": "Decisions", "open": "Open", "event": "Events",
    "fact": "Facts",
}  # fmt: skip
_NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")
_NAME = re.compile(r"\b[A-Z][\w-]+\b")
_NAMES = re.compile(r"\b[A-ZÀ-Þ][\w-]+(?: [A-ZÀ-Þ][\w-]+)*")
_NO_NAMES = frozenset(("i'm", "i've", "ok", "i'll", "i'd"))
_FILLER = re.compile(
    r"^(?:(?:well|ok|okay|so|and|but|also|please|thanks|thank you|hi|hello|great|sure|yes|no|by the way|actually|i "
    r"think|"
    r"i guess|just to be clear|as i said)[,:!]?\s+)+",
    re.IGNORECASE,
)
_LONGEST = 240  # characters of a line
_SHORTEST = 8
_AGREED = re.compile(
    r"\b(?:we (?:have )?(?:agreed|decided)|as agreed)\b|我们决定|我们同意", re.IGNORECASE
)  # in an answer


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a block, and the ids of the messages it is from; `day` is when the first of them was written."""

    kind: Kind
    text: str
    message_ids: tuple[str, ...]
    day: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """What a range of messages comes to; `first_id` to `last_id`, both included."""

    first_id: str
    last_id: str
    lines: tuple[Line, ...]


def summarise(messages: Sequence[StoredMessage]) -> Block:
    """The block of a range of messages, drawn from them alone. A range that says nothing has a block without lines."""
    lines: dict[tuple[Kind, str], list[str]] = {}
    for message in messages:
        for kind, text in _lines(message):
            lines.setdefault((kind, text), []).append(message.id)
    sources = {message.id: message.text for message in messages}
    days = {message.id: message.created[:10] for message in messages}
    kept = [Line(kind, text, tuple(dict.fromkeys(ids)), days[ids[0]]) for (kind, text), ids in lines.items()]
    kept = [line for line in kept if is_supported(line, sources)]
    kept.sort(key=lambda line: _ORDER.index(line.kind))
    return Block(messages[0].id, messages[-1].id, tuple(kept))


def is_supported(line: Line, sources: dict[str, str]) -> bool:
    """True if every number, date and name of a line stands in the messages it names, of which some are there."""
    text = "\n".join(sources.get(message_id, "") for message_id in line.message_ids)
    if not text.strip():
        return False
    known = set(_NUMBER.findall(plain(text)))
    names = {name.casefold() for name in re.findall(r"\w[\w-]*", text)}
    return all(number in known for number in _NUMBER.findall(line.text)) and all(
        name.casefold() in names for name in _NAME.findall(line.text)
    )


def render(blocks: Sequence[Block], budget: int, count_tokens: Callable[[str], int]) -> str:
    """The blocks as text for the prompt, in at most `budget` tokens: the newest blocks first to be kept whole, then
    the gravest kinds of older ones. Empty if there is nothing to say."""
    kept: list[tuple[int, Line]] = []
    spent = count_tokens("Earlier in this conversation:\n")
    ranked = sorted(
        ((place, line) for place, block in enumerate(blocks) for line in block.lines if line.kind in _TITLES),
        key=lambda item: (_ORDER.index(item[1].kind) - (2 if item[0] == len(blocks) - 1 else 0), -item[0]),
    )
    for place, line in ranked:
        cost = count_tokens(f"- {_TITLES[line.kind]}: {line.text}\n")
        if spent + cost <= budget:
            kept.append((place, line))
            spent += cost
    kept.sort(key=lambda item: (_ORDER.index(item[1].kind), item[0]))
    if not kept:
        return ""
    text, last = ["Earlier in this conversation:"], ""
    for _, line in kept:
        title = _TITLES[line.kind]
        if title != last:
            text.append(f"{title}:")
        last = title
        text.append(f"- {line.text}")
    return "\n".join(text)


def _lines(message: StoredMessage) -> list[tuple[Kind, str]]:
    text = without_fences(message.text)
    even = plain(own_text(text))
    found: list[tuple[Kind, str]] = []
    for sentence in sentences(even):
        kind = _kind(sentence, message)
        if kind is not None:
            found.append((kind, _shortened(sentence.text)))
            found += [("entity", name) for name in _entities(sentence.text)]
    if message.role == "user":
        found += [("triple", text) for text in _triples(text, datetime.fromisoformat(message.created).date())]
    return found


def _entities(sentence: str) -> list[str]:
    """The names in a sentence; its first word may only be written like one."""
    names = _NAMES.findall(sentence[1:])
    return list(dict.fromkeys(name for name in names if name.casefold() not in _NO_NAMES))


def _triples(text: str, said: date) -> list[str]:
    """What a message states that is worth keeping: subject | slot | value, with "not" before what is denied."""
    claims = (claim for statement in statements(own_text(text), said) for claim in statement.claims)
    return [
        f"{claim.subject} | {claim.slot} | {'' if claim.affirmed else 'not '}{claim.value}"
        for claim in claims
        if claim.value and worth_keeping(claim)
    ]


def _kind(sentence: Piece, message: StoredMessage) -> Kind | None:
    text = sentence.text
    if len(text) < _SHORTEST or len(text) > 4 * _LONGEST or text.rstrip().endswith(("?", "？")):
        return None
    if message.role != "user":
        return "decision" if _AGREED.search(text) else None
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    if _NUMBER.search(text) or _NAME.search(text[1:].replace(" I ", " ")):
        return "fact"  # figures, dates and names are what nobody can guess again
    said = datetime.fromisoformat(message.created).date()
    kept = any(worth_keeping(claim) for statement in statements(text, said) for claim in statement.claims)
    return "fact" if kept else None


def _shortened(text: str) -> str:
    text = " ".join(_FILLER.sub("", text).split())
    if len(text) <= _LONGEST:
        return text
    cut = text.rfind(" ", 0, _LONGEST)
    return text[: cut if cut > 0 else _LONGEST].rstrip(" ,;") + " …"
