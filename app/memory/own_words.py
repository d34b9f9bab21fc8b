"""What of a message its writer wrote: without code, quotations and what was pasted. Texts keep their length.

A pattern that runs over a text holds the interpreter's lock until it ends, and the screen waits: all of this takes time
in proportion to the text, whatever is in it.
"""

from __future__ import annotations

import re

LONGEST_TYPED = 4_000  # characters; of a longer message most was pasted
_PARAGRAPH = 600  # characters; a longer one was pasted
_FOREIGN = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|^[ \t]*>.*$|\"[^\"\n]{12,}\"|(?P<mark>[“「《])|<(?P<tag>[a-z_]+)>",
    re.DOTALL | re.MULTILINE,
)
# What ends a quotation that begins with a mark, on its line, and the fewest characters of one.
_MARKS = {"“": ("”", 12), "「": ("」", 6), "《": ("》", 0)}
_PASTED = re.compile(rf"[^\n]{{{_PARAGRAPH},}}")
_BREAK = re.compile(r"\n[ \t]*\n")


def own_text(text: str) -> str:
    """A message with code, quotations and very long paragraphs blanked out."""
    pieces, kept, at, ahead = [], 0, 0, _Ahead(text)
    while (found := _FOREIGN.search(text, at)) is not None:
        at, end = found.end(), found.end()
        if tag := found["tag"]:
            end = ahead.after(f"</{tag}>", at)
        elif mark := found["mark"]:
            closing, fewest = _MARKS[mark]
            end = ahead.after(closing, at)
            end = end if end > at + fewest and end <= ahead.after("\n", at, len(text)) else 0
        if end:
            pieces += [text[kept : found.start()], " " * (end - found.start())]
            kept = at = end
    return _PASTED.sub(_blank, "".join([*pieces, text[kept:]]))


def typed_text(text: str) -> str:
    """The same, and of a long message, which nobody types into a chat, only what stands before and after a paste: its
    first and its last paragraph, or line where the paragraph is long.
    """
    text = own_text(text)
    if len(text) - text.count(" ") <= LONGEST_TYPED:
        return text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    breaks = [(found.start(), found.end()) for found in _BREAK.finditer(text, start, end)] or [(end, start)]
    first, last = breaks[0][0], breaks[-1][1]
    if first - start > _PARAGRAPH:
        first = max(text.find("\n", start, end), start)
    if end - last > _PARAGRAPH:
        last = text.rfind("\n", start, end) + 1 or end
    return text[:first] + "\n" * max(last - first, 0) + text[max(last, first) :]


def _blank(found: re.Match[str]) -> str:
    """Nothing in place of a long line, unless most of it was blanked out before."""
    line = found[0]
    return line if len(line) - line.count(" ") < _PARAGRAPH // 2 else " " * len(line)


class _Ahead:
    """Where words stand in a text, asked for from front to back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: dict[str, int] = {}

    def after(self, word: str, at: int, otherwise: int = 0) -> int:
        """The end of the first `word` from `at` on."""
        place = self._next.get(word, 0)
        if 0 <= place < at or word not in self._next:
            place = self._next[word] = self._text.find(word, at)
        return place + len(word) if place >= 0 else otherwise
