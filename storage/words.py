"""Text and queries in the form that the index of chunks can match: words, and bigrams where there are no spaces.

A run of a script without spaces is indexed as its overlapping pairs of characters, its last character alone, so that
every character begins exactly one entry: a pair is found as itself, a single character by what begins with it.
"""

from __future__ import annotations

import functools
import re

_RUN = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"  # Han, kana
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"  # Hangul syllables, more Han, half-width kana
    "]+"
)
_WORDS = re.compile(r"\S+")
_MOST_TERMS = 48


def indexed(text: str) -> str:
    """`text` with every run of a script without spaces written as pairs."""
    if text.isascii():
        return text
    return _RUN.sub(_pairs, text)


def _pairs(run: re.Match[str]) -> str:
    return " " + " ".join(entries(run[0])) + " "


def entries(run: str) -> list[str]:
    """The index entries of a run of characters: its pairs and, alone, its last character."""
    return [run[index : index + 2] for index in range(len(run))]


def query_terms(query: str) -> list[str]:
    """The terms of a query as FTS5 phrases, each quoted, so that nothing in it is syntax; at most 48, in order."""
    terms: dict[str, None] = {}
    for word in _WORDS.findall(query.replace("\x00", " ")):
        rest = word
        for run in _RUN.findall(word):
            rest = rest.replace(run, " ", 1)
            if len(run) == 1:
                terms[f'"{run}"*'] = None
            else:
                terms |= dict.fromkeys(f'"{pair}"' for pair in entries(run)[:-1])
        for part in rest.split():
            plain = part.replace('"', " ").strip()
            if any(map(str.isalnum, plain)):
                terms[f'"{plain.casefold()}"'] = None
    return list(terms)[:_MOST_TERMS]


@functools.lru_cache(maxsize=4096)
def words_of(text: str) -> frozenset[str]:
    """What a text is made of for comparing texts: folded words, and the pairs of scripts without spaces."""
    return frozenset(re.findall(r"\w+", indexed(text).casefold()))
