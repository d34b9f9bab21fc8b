"""What things are called, what kind they are, what they contain, and what a diet or a medicine rules out.

The data is `memory_concepts.toml` in the assets.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

_HAN = re.compile("[\u3400-\u9fff]")
# What is counted or contained, not what contains it: a cup of coffee is coffee.
_VESSELS = frozenset(
    [
        "cup",
        "glass",
        "bottle",
        "can",
        "slice",
        "piece",
        "bowl",
        "plate",
        "pot",
        "mug",
        "pint",
        "bit",
        "lot",
        "lots",
        "plenty",
        "bar",
        "scoop",
        "shot",
        "tin",
        "jar",
        "pack",
        "packet",
        "loaf",
        "kind",
        "type",
        "sort",
        "type",
        "couple",
        "pair",
        "number",
        "handful",
        "portion",
        "serving",
    ]
)
_ARTICLES = frozenset(
    [
        "a",
        "an",
        "the",
        "some",
        "any",
        "my",
        "his",
        "her",
        "their",
        "our",
        "your",
        "this",
        "that",
        "these",
        "those",
        "all",
        "every",
        "each",
        "of",
        "such",
        "lot",
        "much",
        "many",
        "more",
        "most",
        "really",
        "very",
        "strong",
        "good",
        "fresh",
        "hot",
        "cold",
        "big",
        "small",
        "little",
        "new",
        "old",
        "great",
        "nice",
        "eating",
        "drinking",
        "having",
        "taking",
        "wearing",
        "own",
        "single",
        "anything",
        "everything",
        "kind",
        "kinds",
        "sort",
        "sorts",
        "type",
        "types",
        "other",
    ]
)
_PLURALS = {
    "cookies": "cookie",
    "movies": "movie",
    "brownies": "brownie",
    "smoothies": "smoothie",
    "pies": "pie",
    "children": "child",
    "kids": "kid",
    "people": "person",
    "women": "woman",
    "men": "man",
    "mice": "mouse",
    "feet": "foot",
    "teeth": "tooth",
    "knives": "knife",
    "lives": "life",
    "wives": "wife",
    "loaves": "loaf",
}
_NO_PLURAL = ("ss", "us", "is", "as", "ies")
_FREE_OF = re.compile(r"\b([a-z]+(?: [a-z]+)?)[- ]free\b|\bwithout (?:any )?([a-z]+(?: [a-z]+)?)|\bno[- ]([a-z]+)\b")
_MEATLESS = re.compile(r"(?:\w+ )?(vegan|vegetarian|plant-based|meatless|veggie)\b")
_OFTEN = re.compile(
    r"\s+(?:every (?:single |other )?\w+|each \w+|daily|weekly|regularly|all the time|a lot|very much|so much|too "
    r"much|(?:once|twice|"
    r"\w+ times) (?:a|per) \w+|(?:a|per) (?:day|week|month|year)|an? (?:hour|evening)|"
    r"all day(?: long)?|more than anything|the most|from time to time|now and then)$"
)
_WITH = re.compile(r"\s+(?:with|in|to my|to the|into|containing|made (?:of|from|with)|and|on|over|including)\s+")


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing: what it is called in `value`, the kinds it is, what is in it."""

    key: str
    kinds: tuple[str, ...]
    contents: tuple[str, ...]
    mixed: bool


@dataclass(frozen=True)
class Lexicon:
    """Every concept by key, and by the names people give it."""

    concepts: Mapping[str, Concept]
    names: Mapping[str, str]
    diets: Mapping[str, tuple[str, ...]]
    interactions: Mapping[str, tuple[str, ...]]

    def find(self, phrase: str) -> str | None:
        """The concept a phrase of words names, by its last words: "strong black coffee" is coffee, "coffee table" is
        none. Words with Han characters are looked for from the end, too."""
        phrase = phrase.strip().casefold()
        if phrase in self.names:
            return self.names[phrase]
        if _HAN.search(phrase):
            return next((self.names[phrase[i:]] for i in range(len(phrase)) if phrase[i:] in self.names), None)
        words = phrase.split()
        for start in range(max(len(words) - 4, 0), len(words)):
            tail = words[start:]
            for form in (" ".join(tail), " ".join([*tail[:-1], singular(tail[-1])])):
                if form in self.names:
                    return self.names[form]
        return None

    def closure(self, key: str, *, contents: bool = True) -> frozenset[str]:
        """The concept, every kind it is, and with `contents` everything in it and its kinds."""
        seen: set[str] = set()
        waiting = [key]
        while waiting:
            now = waiting.pop()
            if now in seen:
                continue
            seen.add(now)
            concept = self.concepts.get(now)
            if concept is not None:
                waiting += concept.kinds
                if contents:
                    waiting += concept.contents
        return frozenset(seen)

    def is_mixed(self, key: str) -> bool:
        """True for a kind whose members are often eaten unseen."""
        concept = self.concepts.get(key)
        return concept is not None and concept.mixed


@dataclass(frozen=True, slots=True)
class Thing:
    """What a phrase is about: `value` to compare by, the concepts named in it, and those it says it is free of."""

    value: str
    concepts: frozenset[str]
    free_of: frozenset[str] = frozenset()


def thing(phrase: str, *, is_name: bool = False, whole: bool = False) -> Thing:
    """Read a noun phrase. "a cup of decaf" -> decaf; "toast with peanut butter" -> toast, with peanut butter.

    A name is no plural. With `whole`, what follows the thing is part of the value: "cats on the table" are not cats.
    """
    lexicon = load_lexicon()
    text = " ".join(_OFTEN.sub("", phrase.casefold()).strip(" .,!?;:，。！？\"'“”").split())
    free = frozenset(
        key for match in _FREE_OF.finditer(text) for part in match.groups() if part and (key := lexicon.find(part))
    )
    text = _FREE_OF.sub(" ", text)
    if match := _MEATLESS.match(text):
        free |= {"animal_product", "meat", "dairy"} if match[1] != "vegetarian" else {"meat"}
    heads = _WITH.split(text)
    concepts = {key for head in heads for key in _named(lexicon, _head(head))}
    first = lexicon.find(_head(heads[0]))
    if len(heads) > 1 and whole:
        first, concepts = None, set()
    value = first if first is not None else _head(text) if is_name or (whole and len(heads) > 1) else _plain(heads[0])
    if free and first is not None:
        value += " without " + " ".join(sorted(free))
    return Thing(value or text, frozenset(concepts), free)


def singular(word: str) -> str:
    """The singular of an English noun, as far as its ending tells."""
    if word in _PLURALS:
        return _PLURALS[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "toes", "zes")):
        return word[:-2]
    if word.endswith("s") and len(word) > 3 and not word.endswith(_NO_PLURAL):
        return word[:-1]
    return word


def _head(phrase: str) -> str:
    words = phrase.split()
    while words and (words[0] in _ARTICLES or words[0].isdigit()) and " ".join(words) not in load_lexicon().names:
        words = words[1:]
    if len(words) > 2 and words[1] == "of" and singular(words[0]) in _VESSELS:
        return _head(" ".join(words[2:]))
    return " ".join(words)


def _named(lexicon: Lexicon, phrase: str) -> list[str]:
    """The thing a phrase names, and what it is made of: a peanut butter sandwich has peanut butter in it."""
    found = lexicon.find(phrase)
    if found is None or _HAN.search(phrase):
        return [] if found is None else [found]
    words = phrase.split()
    longest = min((i for i in range(len(words)) if _exactly(lexicon, words[i:]) == found), default=0)
    made_of = lexicon.find(" ".join(words[:longest])) if longest else None
    return [found] if made_of is None else [found, made_of]


def _exactly(lexicon: Lexicon, words: Sequence[str]) -> str | None:
    return lexicon.names.get(" ".join(words)) or lexicon.names.get(" ".join([*words[:-1], singular(words[-1])]))


def _plain(phrase: str) -> str:
    words = _head(phrase).split()
    return " ".join([*words[:-1], singular(words[-1])]) if words else ""


@functools.cache
def load_lexicon() -> Lexicon:
    """The lexicon of the assets. Raises ValueError if two concepts have one name."""
    with resources.files("octavo.assets").joinpath("memory_concepts.toml").open("rb") as stream:
        document = tomllib.load(stream)
    concepts: dict[str, Concept] = {}
    names: dict[str, str] = {}

    def add(key: str, words: Iterable[str], kinds: Iterable[str], contents: Iterable[str], mixed: bool) -> None:
        concepts[key] = Concept(key, tuple(kinds), tuple(contents), mixed)
        for word in words:
            if names.setdefault(word, key) != key:
                raise ValueError(f"{word!r} names both {names[word]} and {key}")

    for key, entry in document["concepts"].items():
        first, *others = entry["names"]
        add(key, first.split("|"), entry.get("is", ()), entry.get("has", ()), entry.get("mixed", False))
        for other in others:
            words = other.split("|")
            add(words[0].replace(" ", "_"), words, (key,), (), False)
    tables = {name: {key: tuple(kinds) for key, kinds in document[name].items()} for name in ("diets", "interactions")}
    return Lexicon(concepts, names, **tables)
