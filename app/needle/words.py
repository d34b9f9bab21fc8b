"""Names to hide and words to count: short lists and the vocabulary of the bundled play."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, pairwise, product
from random import Random
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal

_SHORTEST_WORD = 4
_MOST_UNLIKE = 18


@dataclass(frozen=True, slots=True)
class Fact:
    """What a city has: told up to a value that begins with the city's name, and asked for."""

    told: str
    question: str


def word_list(name: Literal["cities", "adjectives", "nouns"]) -> tuple[str, ...]:
    """Distinct names to make keys of: 120 cities, 50 adjectives, 60 nouns."""
    return tuple(_words()[name])


def facts(random: Random, count: int) -> list[Fact]:
    """Facts about distinct cities, at most 120; no two of a kind before all 24 kinds are used up."""
    kinds = _words()["facts"]
    order = [kind for _ in range(0, count, len(kinds)) for kind in random.sample(kinds, len(kinds))]
    cities = random.sample(word_list("cities"), count)
    told = zip(order[:count], cities, strict=True)
    return [Fact(f"{start.format(city)} {city}", question.format(city)) for (start, question), city in told]


@cache
def play_lines() -> tuple[str, ...]:
    """The bundled play, one speech or stage direction each."""
    text = files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def keys(random: Random, count: int) -> list[str]:
    """Distinct pairs such as "brave-anchor"; at most 3,050 of them."""
    pairs = list(product(word_list("adjectives"), word_list("nouns")))
    return [f"{first}-{second}" for first, second in random.sample(pairs, count)]


def numbers(random: Random, count: int, digits: int) -> list[str]:
    """Distinct numbers of that many digits, none with a leading zero."""
    return [str(number) for number in random.sample(range(10 ** (digits - 1), 10**digits), count)]


def unlike_numbers(random: Random, count: int, digits: int) -> list[str]:
    """Numbers without a digit twice, of which no two have two neighbouring digits in common, if there are so many.

    Models copy such a number digit by digit, and by the last one or two they know where in it they are: what a small
    one gets wrong is then what it could not find, not what it could not spell.
    """
    found: list[str] = []
    taken: set[str] = set()
    while len(found) < count:
        number = "".join(random.sample("0123456789", digits))
        pairs = {first + second for first, second in pairwise(number)}
        if number[0] != "0" and number not in found and (len(found) >= _MOST_UNLIKE or taken.isdisjoint(pairs)):
            found.append(number)
            taken |= pairs
    return found


def variable_names(random: Random, count: int) -> list[str]:
    """Distinct names of five capital letters."""
    return _codes(random, count, ascii_uppercase, 5)


def coded_words(random: Random, count: int) -> list[str]:
    """Distinct words of six letters that mean nothing."""
    return _codes(random, count, ascii_lowercase, 6)


def countable_words(random: Random) -> Iterator[str]:
    """Distinct English words in random order; compounds of two nouns once the play has no more of them."""
    plain = sorted({word for line in play_lines() for word in re.findall(r"(?<![\w'])[a-z]+(?![\w'])", line)})
    words = [word for word in plain if len(word) >= _SHORTEST_WORD]
    random.shuffle(words)
    compounds = [first + second for first, second in product(word_list("nouns"), repeat=2)]
    random.shuffle(compounds)
    more = (first + second for first, second in product(word_list("adjectives"), words))
    told: set[str] = set()
    for word in chain(words, compounds, more):
        if word not in told:
            told.add(word)
            yield word


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(files("octavo.assets").joinpath("needle_words.toml").read_text(encoding="utf-8"))


def _codes(random: Random, count: int, letters: str, length: int) -> list[str]:
    codes: dict[str, None] = {}  # a set's order is not the same in every process
    while len(codes) < count:
        codes["".join(random.choices(letters, k=length))] = None
    return list(codes)
