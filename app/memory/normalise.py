"""From what a person wrote to claims that can be compared. What is not known stays unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from octavo.app.memory import chinese, english
from octavo.app.memory.claims import UNKNOWN, Claim
from octavo.app.memory.clauses import Piece, clauses, language_of, plain, sentences

_LONGEST = 600  # characters of a clause that is read; nobody says something about themselves in more
_REPORTED = re.compile(
    r"\b(?:i (?:read|heard) that|according to|(?:says?|said|claims?|thinks?|told me) (?:that )?(?:i|the user)\b)",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^(?:do|does|did|am|is|are|was|were|can|could|should|would|will|have|has|what|which|who|where|when|why|how)\s+(?:i|you|we|it|the|my|there|"
    r"this|that|he|she|they|user|would|do|can|is|are|should|many|much|long|to|about)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"^(?:(?:and )?(?:as|like) i(?:'ve| have)? (?:\w+ )?(?:said|mentioned|told you|explained|wrote)"
    r"(?: (?:before|earlier|already|above))?"
    r"|by the way|for the record|just so you know|you know|fyi|btw)[\s,.:!]*$",
    re.IGNORECASE,
)

# What follows is somebody else's, or nobody's: a text to work on, or a part to play.
_FRAMED = re.compile(
    r"^(?:please |can you |could you )*(?:translate|summari[sz]e|rewrite|rephrase|proofread|correct|shorten|pretend|"
    r"imagine|role-?play|write (?:an?|me|the)|how (?:do|would) (?:i|you|one) say)\b"
    r"|\bin (?:my|the|this) (?:story|novel|book|game|dream|film|movie|play|script)\b"
    r"|^(?:请|帮我|请帮我)?(?:翻译|总结|改写|润色|写一)|(?:小说|故事|游戏|梦|剧本)里",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause of a message and what it says: `quote` is message[start:end]."""

    quote: str
    start: int
    end: int
    language: str
    claims: tuple[Claim, ...]


def statements(text: str, said: date) -> list[Statement]:
    """Every clause of a message, in order, with its claims. `said` is the day of the message."""
    found: list[Statement] = []
    even = plain(text)
    for sentence in sentences(even):
        previous = UNKNOWN
        language = language_of(sentence.text)
        for clause in clauses(sentence, even):
            if _ASIDE.match(clause.text):
                continue
            claims = _read(clause, language, said, previous)
            if claims and claims[0].subject:
                previous = claims[0].subject
            if _is_question(sentence.text, language):
                claims = [replace(claim, modality="question") for claim in claims]
            elif _FRAMED.search(sentence.text):
                claims = [replace(claim, modality="hypothetical") for claim in claims]
            elif language == "en" and _REPORTED.search(clause.text):
                claims = [replace(claim, modality="reported") for claim in claims]
            quote = text[clause.start : clause.end]
            found.append(Statement(quote, clause.start, clause.end, language, tuple(claims)))
    return found


def claims_of(text: str, said: date) -> list[Claim]:
    """The claims of a short text, those that are only implied among them."""
    return [claim for statement in statements(text, said) for claim in statement.claims]


def _read(clause: Piece, language: str, said: date, previous: str) -> list[Claim]:
    """With one space where there are many, such as in place of what was blanked out: patterns go through each of them
    again and again.
    """
    text = " ".join(clause.text.split())
    if language == "zh" and len(text) <= _LONGEST:
        return chinese.read(text, said, previous)
    if language == "en" and len(text) <= _LONGEST:
        return english.read(text, said, previous)
    return [Claim(UNKNOWN, "", text.casefold())]


def _is_question(text: str, language: str) -> bool:
    if text.rstrip().endswith(("?", "？")):
        return True
    return chinese.is_question(text) if language == "zh" else _QUESTION.match(text) is not None
