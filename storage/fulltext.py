"""What a person types and what they wrote, brought into the form SQLite's full-text index can match.

The index splits at spaces and punctuation. Scripts without spaces would be one endless word, so each of their
characters is made a word of its own (and so is each emoji); a query for several becomes a phrase, which finds them
anywhere, side by side.
"""

from __future__ import annotations

import re
from itertools import pairwise

MATCH_START, MATCH_END = "\x02", "\x03"

_SEPARATOR = "\x1f"
_ALONE = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"  # Han, kana
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"  # Hangul syllables, more Han, half-width kana
    "\u00a6\u00a9\u00ae\u00b0\u2100-\u214f\u2190-\u2bff\U0001f000-\U0001faff"  # symbols and emoji
    "]+"
)
_CONTROL = str.maketrans(dict.fromkeys(["\x00", MATCH_START, MATCH_END, _SEPARATOR], " "))
_WORDS = re.compile(r'"([^"]*)"|(\S+)')


def indexed(text: str) -> str:
    """`text` with a separator around each character that is a word of its own."""
    text = text.translate(_CONTROL)
    if text.isascii():
        return text
    return _ALONE.sub(lambda run: _SEPARATOR + _SEPARATOR.join(run[0]) + _SEPARATOR, text)


def readable(snippet: str) -> str:
    """A piece of an indexed text as it was written, on one line."""
    return " ".join(snippet.replace(_SEPARATOR, "").split())


def match_expression(query: str) -> str:
    """The FTS5 expression for messages that hold every word of `query`; empty if it has no word.

    Quoted words are looked for as a phrase. While the last word is being typed (no space after it), its beginning is
    enough. Nothing in the query is syntax: each word is quoted.
    """
    words = list(_WORDS.finditer(query))
    terms = []
    for word in words:
        text = indexed(word[1] if word[1] is not None else word[2]).replace('"', " ")
        if any(character.isalnum() or _ALONE.match(character) for character in text):
            open_ended = word is words[-1] and word[1] is None and word.end() == len(query)
            terms.append(f'"{text}"' + ("*" if open_ended else ""))
    return " ".join(terms)


def any_word_expression(text: str) -> str:
    """The FTS5 expression for what shares a word with `text`, or two characters in a row of a script without spaces."""
    terms: dict[str, None] = {}
    for word in indexed(text).replace('"', " ").split():
        parts = [part for part in word.split(_SEPARATOR) if any(map(str.isalnum, part))]
        if len(parts) > 1:
            terms |= dict.fromkeys(f'"{a} {b}"' for a, b in pairwise(parts))
        elif parts:
            terms['"' + parts[0] + '"'] = None
    return " OR ".join(terms)
