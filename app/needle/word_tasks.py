"""Tasks that count words, after RULER (Hsieh et al. 2024, arXiv:2404.06654): the text itself is the haystack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, islice, repeat
from random import Random

from octavo.app.errors import AppError
from octavo.app.needle.filling import Encode
from octavo.app.needle.task import Question
from octavo.app.needle.words import coded_words, countable_words

COMMON_INTRO = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n\n"
)
FREQUENT_INTRO = (
    "Read the following coded text and track the frequency of each coded word. "
    "Find the three most frequently appeared coded words.\n\n"
)
NUM_COMMON = 10
NUM_FREQUENT = 3
SHORT_TOKENS = 4096
"""Below this length a common word comes 6 times and another one once, from it on 30 and 3 times."""

_COMMON_ANSWER_TOKENS = 96
_FREQUENT_ANSWER_TOKENS = 48
_ZETA_OF_2 = math.pi**2 / 6
_DOTS = "...."
_TOKENS_PER_CODE = 50  # a coded word more for each so many tokens
_FEWEST_CODES = 10

Text = tuple[list[int], Question]


def common_words(encode: Encode, num_tokens: int, random: Random) -> Text:
    """A numbered list in random order: ten words come often, all others seldom."""
    often, seldom = (30, 3) if num_tokens >= SHORT_TOKENS else (6, 1)
    words = countable_words(random)
    common = list(islice(words, NUM_COMMON))
    encode_once = lru_cache(None)(encode)
    entries = list(chain.from_iterable(repeat(word, often) for word in common))
    cost = sum(len(_entry(encode_once, at, word)) for at, word in enumerate(entries))
    num_uncommon, spare = 0, ""
    for spare in words:
        added = sum(len(_entry(encode_once, len(entries) + i, spare)) for i in range(seldom))
        if cost + added > num_tokens:
            break
        entries += [spare] * seldom
        cost += added
        num_uncommon += 1
    if num_uncommon < NUM_COMMON:
        raise AppError(f"A list with {NUM_COMMON} common words needs more than {num_tokens:,} tokens; raise --tokens.")
    random.shuffle(entries)
    entries += [spare] * seldom  # the room left is less than these take
    ids: list[int] = []
    for at, word in enumerate(entries):
        ids += _entry(encode_once, at, word)
    question = Question(
        text=f"\n\nQuestion: What are the {NUM_COMMON} most common words in the above list?",
        opening=f"The top {NUM_COMMON} words that appear most often in the list are:",
        expected=tuple(common),
        is_value=frozenset(entries).__contains__,
        answer_tokens=_COMMON_ANSWER_TOKENS,
        depth=None,
    )
    return ids[:num_tokens], question


def frequent_words(encode: Encode, num_tokens: int, random: Random) -> Text:
    """Coded words in random order, the k-th most frequent 1 / (k^2 zeta(2)) of them; the first of all is dots.

    RULER's Zeta distribution with the exponent 2. The three words after the dots are asked for.
    """
    codes = [_DOTS, *coded_words(random, max(num_tokens // _TOKENS_PER_CODE, _FEWEST_CODES))]
    pieces = [encode(" " + code) for code in codes]
    counts = _frequencies([len(piece) for piece in pieces], num_tokens)
    if len({*counts[1 : NUM_FREQUENT + 2]}) <= NUM_FREQUENT:
        raise AppError(f"Words cannot differ in frequency within {num_tokens:,} tokens; raise --tokens.")
    order = [index for index, count in enumerate(counts) for _ in range(count)]
    room = num_tokens - sum(len(pieces[index]) for index in order)
    order += [0] * (room // len(pieces[0]))
    random.shuffle(order)
    ids = [token for index in order for token in pieces[index]]
    ids += pieces[0][: num_tokens - len(ids)]
    question = Question(
        text=(
            "\n\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three most "
            "frequently appeared words in the above coded text?"
        ),
        opening="According to the coded text above, the three most frequently appeared words are:",
        expected=tuple(codes[1 : NUM_FREQUENT + 1]),
        is_value=frozenset(codes).__contains__,
        answer_tokens=_FREQUENT_ANSWER_TOKENS,
        depth=None,
    )
    return ids, question


def _entry(encode: Encode, index: int, word: str) -> list[int]:
    return encode(f" {index + 1}.") + encode(f" {word}")


def _frequencies(costs: Sequence[int], num_tokens: int) -> list[int]:
    """How often each word comes so that all of them, with these costs in tokens, fit."""
    shares = [1 / (rank**2 * _ZETA_OF_2) for rank in range(1, len(costs) + 1)]
    num_words = num_tokens / sum(share * cost for share, cost in zip(shares, costs, strict=True))
    while True:
        counts = [int(num_words * share) for share in shares]
        if sum(count * cost for count, cost in zip(counts, costs, strict=True)) <= num_tokens:
            return counts
        num_words *= 0.999
