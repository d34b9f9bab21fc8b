"""Builds a document of an exact number of tokens around its needles, in linear time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from octavo.app.errors import AppError
from octavo.app.needle.haystacks import Haystack

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Needle:
    """A sentence to hide, and where: from 0, the beginning of the document, to 1, its end."""

    sentence: str
    depth: float


def fill(encode: Encode, haystack: Haystack, needles: Sequence[Needle], num_tokens: int, random: Random) -> list[int]:
    """Exactly `num_tokens` ids: the haystack, with every needle between two segments, as near its depth as they allow.

    Only the last segment is cut. Pieces are encoded one by one, and all but those of a cut begin where a tokenizer
    would part them anyway. Raises AppError where the needles would take more than half of the room.
    """
    hidden = [(needle, encode(haystack.wrap(needle.sentence))) for needle in needles]
    room = num_tokens - sum(len(ids) for _, ids in hidden)
    if room * 2 < num_tokens:
        raise AppError(
            f"{len(needles)} needles of {num_tokens - room:,} tokens do not leave half of {max(num_tokens, 0):,} "
            "tokens to other text; raise --tokens or lower --depths."
        )
    encode_once = lru_cache(1024)(lambda segment: tuple(encode(segment)))
    ids: list[int] = []
    ends = [0]
    segments = haystack.segments(random)
    while True:
        ids += encode_once(next(segments))
        if len(ids) > room:
            break
        ends.append(len(ids))
    places = [(_nearest(ends, needle.depth * room), order) for order, (needle, _) in enumerate(hidden)]
    document: list[int] = []
    start = 0
    for end, order in sorted(places, key=lambda place: (place[0], hidden[place[1]][0].depth)):
        document += ids[start:end] + hidden[order][1]
        start = end
    return document + ids[start:room]


def _nearest(ends: Sequence[int], wanted: float) -> int:
    at = bisect_left(ends, wanted)
    return min(ends[max(at - 1, 0) : at + 1], key=lambda end: abs(end - wanted))
