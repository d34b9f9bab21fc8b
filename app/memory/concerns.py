"""What a question has to do with something that must be avoided: "Can I have an espresso?" and an allergy to caffeine.

A question states nothing, so that no verdict comes of it; but a small model does not know what contains what.
"""

from __future__ import annotations

import re

from octavo.app.memory.claims import USER, Claim
from octavo.app.memory.exposure import danger
from octavo.app.memory.lexicon import load_lexicon, singular

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_HAN = re.compile("[\u3400-\u9fff]")
_LONGEST = 4  # words of a name
_FREE = re.compile(r"\b(?:decaf\w*|without|no|\w*-?free)\b|无|不含|低因|脱因", re.IGNORECASE)


def named(text: str) -> list[str]:
    """The concepts that a text names, each once, longer names before those within them."""
    names = load_lexicon().names
    words = _WORD.findall(text.casefold())
    found: dict[str, None] = {}
    for length in range(_LONGEST, 0, -1):
        for start in range(len(words) - length + 1):
            *before, last = words[start : start + length]
            for form in (" ".join([*before, last]), " ".join([*before, singular(last)])):
                if form in names:
                    found.setdefault(names[form])
    if _HAN.search(text):
        for name, key in names.items():
            if _HAN.search(name) and name in text:
                found.setdefault(key)
    return list(found)


def concern(guard: Claim, question: str) -> str:
    """Why a question concerns what is to be avoided, a sentence; empty if it does not, or asks for something free of
    it."""
    if guard.subject != USER or _FREE.search(question):
        return ""
    for key in named(question):
        found = danger(guard, Claim(USER, "consume", key, concepts=frozenset((key,))))
        if found is not None:
            return f"This concerns the question: {found.reason[0].lower()}{found.reason[1:]}"
    return ""
