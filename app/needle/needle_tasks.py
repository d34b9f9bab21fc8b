"""Tasks that hide sentences in a haystack: single needle, multi-key, multi-value, variable tracking.

After RULER (Hsieh et al. 2024, arXiv:2404.06654): one value of one key, more keys as distractors, more values of one
key, and chains of variables. Unlike there, one text carries the needles of all depths, so that they could be taken for
each other; as a single needle has no distractors, each of those is another kind of fact, and their numbers are made of
different digits. The other tasks have RULER's
wording. With one depth alone, multi-value and variables are RULER's: one key with four values, one chain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from octavo.app.needle.filling import Needle
from octavo.app.needle.scoring import IsValue
from octavo.app.needle.task import Question
from octavo.app.needle.words import facts, keys, numbers, unlike_numbers, variable_names

FACTS_INTRO = (
    "Some facts with special numbers are hidden within the following text. Make sure to memorize them. "
    "I will quiz you about the numbers afterwards.\n\n"
)
NUMBERS_INTRO = (
    "Some special magic numbers are hidden within the following text. Make sure to memorize them. "
    "I will quiz you about the numbers afterwards.\n\n"
)
VARIABLES_INTRO = "Memorize and track the chains of variable assignment hidden in the following text.\n\n"

PER_KEY, _PER_KEY_IN_WORDS = 4, "four"
"""Keys of a question with its distractors in multi-key, values of a key in multi-value: RULER's number."""
HOPS = 4

Hidden = tuple[list[Needle], list[Question]]

_SINGLE_TOKENS = 32
_VALUES_TOKENS = 64
_CHAIN_TOKENS = 64


def single(random: Random, depths: Sequence[float]) -> Hidden:
    """For each depth a fact about a city of its own: its name and a five-digit number, which is asked for.

    The number follows the name without a space. Tokenizers that take digits one by one would make a token of the space
    that all needles share, and small models then go on with the first digit of any of them. It is asked for
    in plain text: between the roles of a chat, small models lose more of what they find so (tests/bench/results.md).
    """
    needles, questions = [], []
    values = unlike_numbers(random, len(depths), 5)
    for fact, value, depth in zip(facts(random, len(depths)), values, depths, strict=True):
        needles.append(Needle(f"{fact.told}{value}.", depth))
        questions.append(
            Question(
                text=f"\n\n{fact.question}",
                opening=fact.told,
                expected=(value,),
                is_value=_digits(5),
                answer_tokens=_SINGLE_TOKENS,
                depth=depth,
                in_chat=False,
            )
        )
    return needles, questions


def multi_key(random: Random, depths: Sequence[float]) -> Hidden:
    """For each depth a key with a seven-digit number, and three more pairs like it elsewhere that nobody asks for."""
    count = len(depths) * PER_KEY
    names, values = keys(random, count), numbers(random, count, 7)
    needles = [_number(names[i], values[i], _spread(depths, i)) for i in range(count)]
    asked = zip(names[::PER_KEY], values[::PER_KEY], depths, strict=True)
    return needles, [_ask_number(name, value, depth) for name, value, depth in asked]


def multi_value(random: Random, depths: Sequence[float]) -> Hidden:
    """For each depth a key with four seven-digit numbers, the first of them there and the others spread evenly."""
    names, values = keys(random, len(depths)), numbers(random, len(depths) * PER_KEY, 7)
    needles = [_number(names[i // PER_KEY], value, _spread(depths, i)) for i, value in enumerate(values)]
    questions = []
    for i, (name, depth) in enumerate(zip(names, depths, strict=True)):
        what = f"special magic numbers for {name} mentioned in the provided text"
        questions.append(
            Question(
                text=f"\n\nWhat are all the {what}? Name the {_PER_KEY_IN_WORDS} different numbers.",
                opening=f"The {_PER_KEY_IN_WORDS} different {what} are",
                expected=tuple(values[i * PER_KEY : (i + 1) * PER_KEY]),
                is_value=_digits(7),
                answer_tokens=_VALUES_TOKENS,
                depth=depth,
            )
        )
    return needles, questions


def variables(random: Random, depths: Sequence[float]) -> Hidden:
    """For each depth a chain: a variable gets a number there, and four others, on to the end, get it hop by hop."""
    length = HOPS + 1
    names, values = variable_names(random, len(depths) * length), numbers(random, len(depths), 5)
    needles, questions = [], []
    for i, (value, depth) in enumerate(zip(values, depths, strict=True)):
        chain = names[i * length : (i + 1) * length]
        for hop, name in enumerate(chain):
            source = f"VAR {chain[hop - 1]}" if hop else value
            needles.append(Needle(f"VAR {name} = {source}.", depth + (1 - depth) * hop / length))
        questions.append(
            Question(
                text=f"\n\nQuestion: Find all variables that are assigned the value {value} in the text above.",
                opening=(
                    "According to the chains of variable assignment in the text above, "
                    f"{length} variables are assigned the value {value}, they are:"
                ),
                expected=tuple(chain),
                is_value=re.compile("[A-Z]{5}").fullmatch,
                answer_tokens=_CHAIN_TOKENS,
                depth=depth,
            )
        )
    return needles, questions


def _number(name: str, value: str, depth: float) -> Needle:
    return Needle(f"One of the special magic numbers for {name} is: {value}.", depth)


def _ask_number(name: str, value: str, depth: float) -> Question:
    what = f"special magic number for {name} mentioned in the provided text"
    return Question(
        text=f"\n\nWhat is the {what}?",
        opening=f"The {what} is",
        expected=(value,),
        is_value=_digits(len(value)),
        answer_tokens=_SINGLE_TOKENS,
        depth=depth,
    )


def _digits(count: int) -> IsValue:
    return re.compile(rf"\d{{{count}}}").fullmatch


def _spread(depths: Sequence[float], index: int) -> float:
    """The depth of the needle `index`, of which every question has PER_KEY: evenly apart, around the end."""
    return (depths[index // PER_KEY] + index % PER_KEY / PER_KEY) % 1
