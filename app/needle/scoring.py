"""Exact match on the value, counted on whole words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

IsValue = Callable[[str], object]
"""Truthy for a word that could be a value: what a wrong answer would name, too."""


def count_found(answer: str, expected: Sequence[str], is_value: IsValue) -> int:
    """How many of the `expected` words the answer names.

    Of the answer's distinct words that could be a value only the first `len(expected)` count, so that listing every
    number of a text finds nothing.
    """
    named = dict.fromkeys(word for word in re.findall(r"\w+", answer) if is_value(word))
    counted = list(named)[: len(expected)]
    return sum(word in counted for word in expected)
