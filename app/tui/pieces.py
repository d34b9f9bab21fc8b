"""A message cut into pieces of bounded length, so that the screen only holds those near the reader.

A piece is a Markdown document of its own: it begins at a block at the left margin, and a code block that had to be
cut is closed at the end of one piece and opened again, with the same language, at the start of the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SOFT_LIMIT = 3_000  # characters after which a piece ends before the next block
HARD_LIMIT = 6_000  # characters after which it ends at the next line, or in one that is this long itself

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})([^\n]*)")


@dataclass(frozen=True, slots=True)
class Cut:
    """The place between two pieces. `close` and `reopen` are the fence lines a cut code block needs, else empty."""

    close: str = ""
    reopen: str = ""


class PieceSplitter:
    """Decides, as text streams in, where one piece ends and the next begins."""

    def __init__(self) -> None:
        self._length = 0  # characters of the current piece
        self._line = ""  # the current line so far
        self._after_blank = False
        self._fence = ""  # the run of characters that opened the code block we are in
        self._info = ""

    def feed(self, text: str) -> Iterator[str | Cut]:
        """The same text, with a Cut at each place where a new piece begins."""
        start = 0
        for end in self._ends(text):
            part = text[start:end]
            start = end
            if not part:
                continue
            if not self._line and (cut := self._cut_before(part)) is not None:
                self._length = len(cut.reopen)
                yield cut
            elif self._line and self._length > 2 * HARD_LIMIT:
                self._length = 0
                yield Cut(self._closing(), self._opening())
            yield part
            self._advance(part)

    @staticmethod
    def _ends(text: str) -> Iterator[int]:
        """Ends of lines, and of stretches of very long ones."""
        at = 0
        while at < len(text):
            newline = text.find("\n", at)
            end = len(text) if newline < 0 else newline + 1
            at = min(end, at + HARD_LIMIT)
            yield at

    def _cut_before(self, line: str) -> Cut | None:
        if self._fence and line[0] == self._fence[0]:
            return None  # most likely the end of the code block
        at_block = self._after_blank and not self._fence and not line[0].isspace()
        if (at_block and self._length > SOFT_LIMIT) or self._length > HARD_LIMIT:
            return Cut(self._closing(), self._opening())
        return None

    def _closing(self) -> str:
        return f"{self._fence}\n" if self._fence else ""

    def _opening(self) -> str:
        return f"{self._fence}{self._info}\n" if self._fence else ""

    def _advance(self, part: str) -> None:
        self._length += len(part)
        self._line += part[: 200 - len(self._line)] if len(self._line) < 200 else ""
        if not part.endswith("\n"):
            return
        line, self._line = self._line, ""
        self._after_blank = not line.strip()
        match = _FENCE.match(line)
        if match is None:
            return
        run, info = match.group(1), match.group(2).strip()
        if not self._fence:
            if "`" not in info or run[0] == "~":
                self._fence, self._info = run, info
        elif run[0] == self._fence[0] and len(run) >= len(self._fence) and not info:
            self._fence = self._info = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a message's text. `cut_start` and `cut_end`: it begins or ends inside a code block."""

    text: str
    cut_start: bool = False
    cut_end: bool = False


def split(text: str) -> list[Piece]:
    """All pieces of a finished text, at least one."""
    if len(text) <= SOFT_LIMIT:
        return [Piece(text)]
    pieces: list[Piece] = []
    parts: list[str] = []
    cut_start = False
    for part in PieceSplitter().feed(text):
        if isinstance(part, Cut):
            pieces.append(Piece("".join(parts) + part.close, cut_start, bool(part.close)))
            parts, cut_start = [part.reopen], bool(part.reopen)
        else:
            parts.append(part)
    return [*pieces, Piece("".join(parts), cut_start)]
