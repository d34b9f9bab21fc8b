"""Text that goes on for as long as it is asked to: what needles are hidden in. Made by code, from a seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from random import Random

from octavo.app.needle.words import play_lines, word_list

Segments = Iterator[str]

_SENTENCES = (
    " The grass is green.",
    " The sky is blue.",
    " The sun is yellow.",
    " Here we go.",
    " There and back again.",
)


@dataclass(frozen=True, slots=True)
class Haystack:
    """An endless supply of short texts to be joined; a needle goes between two of them, written as `needle` says.

    No segment holds a number of more than four digits, so that it cannot be taken for a needle's value.
    """

    segments: Callable[[Random], Segments]
    needle: str

    def wrap(self, sentence: str) -> str:
        return self.needle.format(sentence)


def sentences(_: Random) -> Segments:
    """The five sentences of RULER's noise haystack, over and over."""
    return cycle(_SENTENCES)


def prose(random: Random) -> Segments:
    """The bundled play, sentence by sentence, begun at a random speech.

    Its about 37,000 tokens come in their own order once. After that its speeches are shuffled anew for every round,
    so that no passage longer than a speech is ever repeated.
    """
    lines = list(play_lines())
    start = random.randrange(len(lines))
    lines = lines[start:] + lines[:start]
    while True:
        for line in lines:
            yield from (" " + sentence for sentence in re.split(r"(?<=[.?!]) ", line))
        random.shuffle(lines)


def code(random: Random) -> Segments:
    """Small Python functions that do arithmetic on their arguments."""
    while True:
        verb = random.choice(("count", "find", "merge", "scale", "check", "update"))
        noun, first, second = random.sample(word_list("nouns"), 3)
        limit, step = random.randrange(2, 1000), random.randrange(2, 100)
        test = random.choice(("<", ">", "<=", ">=", "==", "!="))
        operation = random.choice(("+", "-", "*", "//", "%"))
        yield (
            f"def {verb}_{noun}_{random.randrange(10_000)}({first}, {second}):\n"
            f"    total = {random.randrange(100)}\n"
            f"    for index in range({first}):\n"
            f"        if index {test} {limit}:\n"
            f"            total = total {operation} {step}\n"
            f"    return total {random.choice('+-*')} {second}\n"
        )


def tables(random: Random) -> Segments:
    """Lines of eight numbers of up to four digits."""
    while True:
        yield " ".join(str(random.randrange(10 ** random.randrange(1, 5))) for _ in range(8)) + "\n"


HAYSTACKS = {
    "sentences": Haystack(sentences, " {}"),
    "prose": Haystack(prose, " {}"),
    "code": Haystack(code, "# {}\n"),
    "numbers": Haystack(tables, "{}\n"),
}
