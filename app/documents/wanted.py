"""What kind of value a question asks for, and where a text has one: a date for "when", a price for "what does it cost".

In English, German and Chinese. A question of no such kind wants nothing in particular, and any text may answer it.
"""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources

from octavo.app.documents.facts import Figure, figures
from octavo.app.documents.question import covered, terms_of

_MANY = re.compile(r"\b(?:how many|wie ?viele)\s+(\w+)(?:\s+(?:of\s+)?(\w+))?", re.IGNORECASE)
_CLAUSE = re.compile(r"(?<=[,;:])\s+|(?<=[，；：])|\s+(?=(?:and|but|or|und|aber|oder|sondern)\b)")
# A clause without a word of the question still speaks of it where it is short or begins so.
_GOES_ON = re.compile(
    r"\W*(?:which|it|this|that|they|these|he|she|der|die|das|er|sie|es|dies\w*|and|und)\b|\W*[\u3400-\u9fff]",
    re.IGNORECASE,
)
_SHORT = 4  # words
_NAME = re.compile(r"(?<=[\w,;:)„“\"] )[„“\"]?([A-ZÄÖÜ]\w+)")
_FULL_NAME = re.compile(r"\b(?:Herr|Frau|Dr\.|Prof\.|[A-ZÄÖÜ]\w+) [A-ZÄÖÜ]\w+|[:=] ?[A-ZÄÖÜ]\w+")
_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|dem|den|des|ein|eine)\b")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: how it is asked for, what says one, the units of its numbers; `said` names it."""

    name: str
    said: str
    asks: re.Pattern[str]
    words: re.Pattern[str] | None
    units: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question asks for; `nouns` are what is to be counted, `terms` the words of the question."""

    kind: Kind
    nouns: tuple[str, ...]
    terms: tuple[str, ...]

    def is_in(self, sentence: str) -> bool:
        """Whether a sentence has such a value, in a clause that speaks of what is asked."""
        for place, clause in enumerate(part for part in _CLAUSE.split(sentence) if part.strip()):
            concerns = _GOES_ON.match(clause) is not None or len(re.findall(r"\w+", clause)) <= _SHORT
            if (concerns or covered(self.terms, [clause])) and self._has(clause, begins=place == 0):
                return True
        return False

    def _has(self, clause: str, *, begins: bool) -> bool:
        """Whether a clause has such a value; `begins` if it is the first of its sentence."""
        kind = self.kind
        if _says(kind, clause):
            return True
        match kind.name:
            case "agent":
                return self._names_another(clause) or (begins and self._acts(clause))
            case "name":
                return self._names_another(clause)
            case "when":
                return _says(_kinds()["past"], clause)
            case "many":
                return any(self._counts(clause, each) for each in figures(clause))
            case "number":
                return bool(figures(clause))
        units = _kinds()["duration"].units if kind.name == "often" else kind.units
        return any(each.unit in units or each.unit[:1] in units for each in figures(clause))

    def _counts(self, clause: str, figure: Figure) -> bool:
        """Whether a number counts one of the nouns: it stands before it or, of a number alone, behind it."""
        near = re.findall(r"[^\W_]+", clause[figure.end :])[:4]
        if not figure.unit:
            near += re.findall(r"[^\W_]+", clause[: figure.start])[-3:]
        return not figure.unit.startswith("date") and bool(covered(self.nouns, [" ".join(near)]))

    def _names_another(self, clause: str) -> bool:
        """Whether somebody is named who is not in the question; where all nouns are capitalised, by two such words."""
        if _GERMAN.search(clause) is not None:
            return _FULL_NAME.search(clause) is not None
        return any(not covered([word.casefold()], [" ".join(self.terms)]) for word in _NAME.findall(clause))

    def _acts(self, clause: str) -> bool:
        """Whether a sentence begins with something that the question does not speak of."""
        first = terms_of(" ".join(re.findall(r"\w+", clause)[:4]))[:1]
        return bool(first) and not covered(first, [" ".join(self.terms)])


def wanted(question: str) -> Wanted | None:
    """What a question asks for; None where any text may answer it."""
    kind = next((kind for kind in _kinds().values() if kind.asks.search(question) is not None), None)
    if kind is None:
        return None
    match = _MANY.search(question)
    nouns = tuple(word.casefold() for word in match.groups() if word is not None) if match is not None else ()
    return Wanted(kind, nouns, tuple(terms_of(question)))


def _says(kind: Kind, clause: str) -> bool:
    return kind.words is not None and kind.words.search(clause) is not None


@functools.cache
def _kinds() -> dict[str, Kind]:
    text = resources.files("octavo.assets").joinpath("question_kinds.toml").read_text(encoding="utf-8")
    return {
        name: Kind(
            name,
            each["said"],
            _any_of(each["asks"]),
            _any_of(each["words"]) if "words" in each else None,
            frozenset(each.get("units", "").split()),
        )
        for name, each in tomllib.loads(text).items()
    }


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    joined = "|".join(re.sub(r"\n\s*", "", pattern) for pattern in patterns)
    return re.compile(joined, re.IGNORECASE)
