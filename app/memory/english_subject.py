"""Whom an English clause is about: the user, a person, a project, something else, or nobody that is known."""

from __future__ import annotations

import re

from octavo.app.memory.claims import UNKNOWN, USER
from octavo.app.memory.english_words import GENERIC, RELATIONS
from octavo.app.memory.lexicon import load_lexicon
from octavo.app.memory.verbs import is_verb

_ME = re.compile(r"^(?:i|me|we|the user|user)\b\s*", re.IGNORECASE)
_MINE = re.compile(r"^(?:my|our|the user's|user's)\s+", re.IGNORECASE)
_PROJECT = re.compile(
    r"^(?:(?i:the |our |my )?(?i:project|repo|repository|product|app|service|team) (?P<a>[A-Z][\w-]*)"
    r"|(?P<b>(?!The|Our|This|My|That)[A-Z][\w-]*) (?:project|repo)|(?P<c>(?i:the |our |this |my )(?i:project|"
    r"codebase|repo|repository|product|app|backend|frontend|"
    r"server|website|service|thesis|api)))(?P<s>'s)?\b\s*"
)
_NAME = re.compile(
    r"^(?!(?:The|This|That|Our|Home|These|Those|If|When)\b)(?P<name>(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][a-zà-ÿ]+(?: "
    r"[A-Z][a-zà-ÿ]+)?)(?P<s>'s)?\b\s*"
)
_RELATED = re.compile(
    r"^(?i:my|our|the user's|his|her) (?i:(?:best|close|old|little|big|older|younger|elder|twin|eldest|youngest|new|"
    r"late|ex)[- ])*(?P<who>[\w-]+)"
    r"(?: (?P<name>[A-Z][a-zà-ÿ]+))?(?P<s>'s|')?(?=\s|,|$),?\s*",
)
_PRONOUN = re.compile(r"^(?:he|she|they|his|her|their)\b\s*", re.IGNORECASE)


def subject_of(text: str, previous: str = UNKNOWN) -> tuple[str, str, bool]:
    """Whom the clause is about, the rest of it, and whether that is something belonging to the subject."""
    if match := _ME.match(text):
        return USER, text[match.end() :], False
    if match := _PROJECT.match(text):
        name = (match["a"] or match["b"] or f"the {match['c'].split()[1]}").casefold()
        return f"project:{name}", text[match.end() :], match["s"] is not None
    if (match := _RELATED.match(text)) and match["who"].casefold() in RELATIONS:
        who = (match["name"] or match["who"]).casefold()
        return f"person:{who}", text[match.end() :], match["s"] is not None
    if match := _MINE.match(text):
        return USER, text[match.end() :], True
    if match := _PRONOUN.match(text):
        return previous, text[match.end() :], match[0].strip().casefold() in ("his", "her", "their")
    first = text.split(maxsplit=1)[0].casefold() if text else ""
    if first in GENERIC:
        return f"other:{first}", text[len(first) :].strip(), False
    if (match := _NAME.match(text)) and load_lexicon().find(match["name"]) is None and not is_verb(first):
        return f"person:{match['name'].casefold()}", text[match.end() :], match["s"] is not None
    return UNKNOWN, text, False
