"""A text cut into chunks that follow one another without gaps, so that text[start:end] is the chunk and all chunks
joined are the text.

Headings and pages begin chunks; inside, the cut falls at the best place in the second half of a window of fixed size:
an empty line, the end of a sentence, a line, a word, and where none of these is, between two graphemes
(https://unicode.org/reports/tr29). Every step moves on by a quarter window at least, so the time is linear.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from octavo.app.documents.parsed import Mark
from octavo.app.documents.sentences import sentence_ends

MOST_CHARACTERS = 1000
MOST_WIDE_CHARACTERS = 400  # of text without spaces: a character is a token there
FEWEST_CHARACTERS = 200
_WIDE = regex.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WIDE_SHARE = 0.3
_EMPTY_LINE = regex.compile(r"\n[ \t]*\n[ \t\n]*")
_LINE = regex.compile(r"\n[ \t\n]*")
_SPACE = regex.compile(r"[ \t\n\u3000]+")
_CLAUSE = regex.compile(r"[,;:，、；：]+")
_GRAPHEME = regex.compile(r"\X")


@dataclass(frozen=True, slots=True)
class Chunk:
    """text[start:end] on `page` (from 1, None without pages), below `headings`, of a table with the header `head`."""

    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    head: str = ""


def chunks_of(text: str, marks: Sequence[Mark] = (), pages: Sequence[int] = ()) -> list[Chunk]:
    """All of `text` as chunks in order."""
    headings = [mark for mark in marks if mark.kind == "heading"]
    context = _Context(text, marks, pages, headings)
    return [context.chunk(start, end) for start, end in _spans(text, marks, pages, headings)]


def _spans(
    text: str, marks: Sequence[Mark], pages: Sequence[int], headings: Sequence[Mark]
) -> Iterator[tuple[int, int]]:
    """Sections between headings and pages, short ones joined within a page, long ones cut."""
    page_starts = {page for page in pages if 0 < page < len(text)}
    edges = sorted({0, len(text)} | page_starts | {mark.start for mark in headings if 0 < mark.start < len(text)})
    cutter = _Cutter(text, marks)
    begin = 0
    for place, edge in enumerate(edges[1:], start=1):
        following = edges[place + 1] if place + 1 < len(edges) else edge
        is_short = edge - begin < FEWEST_CHARACTERS and following - begin <= MOST_WIDE_CHARACTERS
        if edge < len(text) and edge not in page_starts and is_short:
            continue
        yield from cutter.cut(begin, edge)
        begin = edge


class _Cutter:
    def __init__(self, text: str, marks: Sequence[Mark]) -> None:
        self._text = text
        self._solid = sorted((mark.start, mark.end, mark.kind) for mark in marks if mark.kind != "heading")
        self._starts = [start for start, _, _ in self._solid]

    def cut(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """text[start:end] in pieces of at most the window's size."""
        while start < end:
            window = self._window(start)
            stop = end if end - start <= window else self._best_cut(start, start + window)
            yield start, stop
            start = stop

    def _window(self, start: int) -> int:
        piece = self._text[start : start + MOST_CHARACTERS]
        wide = 0 if piece.isascii() else len(_WIDE.findall(piece))
        return MOST_WIDE_CHARACTERS if wide > _WIDE_SHARE * len(piece) else MOST_CHARACTERS

    def _best_cut(self, start: int, limit: int) -> int:
        text, half, quarter = self._text, (start + limit) // 2, start + (limit - start) // 4
        block = self._block_at(limit)
        if block is not None and block[0] > quarter:
            return block[0]
        by_lines = block is not None
        if by_lines:
            places = (_last(_EMPTY_LINE, text, half, limit), _last(_LINE, text, half, limit))
        else:
            ends = [stop for stop in sentence_ends(text, half, limit) if stop < limit]
            sentence = ends[-1] if ends else None
            places = (_last(_EMPTY_LINE, text, half, limit), sentence)
        for place in (*places, _last(_LINE, text, half, limit), _last(_SPACE, text, quarter, limit)):
            if place is not None and place > start:
                return place
        return _last(_CLAUSE, text, half, limit) or self._grapheme(start, limit)

    def _block_at(self, place: int) -> tuple[int, int, str] | None:
        """The table, code or JSON that a cut at `place` would go through."""
        index = bisect.bisect_left(self._starts, place) - 1
        return self._solid[index] if index >= 0 and place < self._solid[index][1] else None

    def _grapheme(self, start: int, limit: int) -> int:
        """The last boundary between graphemes up to `limit`; one that is longer than a chunk is cut all the same."""
        place = start
        for match in _GRAPHEME.finditer(self._text, start, min(limit + 64, len(self._text))):
            if match.end() > limit:
                break
            place = match.end()
        return place if place > start else limit


def _last(pattern: regex.Pattern[str], text: str, start: int, limit: int) -> int | None:
    """Where the last match of `pattern` in text[start:limit] ends; white space that goes on past it stays together."""
    place = None
    for match in pattern.finditer(text, start, limit):
        place = match.end()
    return place


class _Context:
    """Page, headings and table of a place in the text."""

    def __init__(self, text: str, marks: Sequence[Mark], pages: Sequence[int], headings: Sequence[Mark]) -> None:
        self._text = text
        self._pages = pages
        self._tables = [mark for mark in marks if mark.kind == "table"]
        self._table_starts = [mark.start for mark in self._tables]
        self._heading_starts = [mark.start for mark in headings]
        self._paths: list[tuple[str, ...]] = [()]
        stack: list[tuple[int, str]] = []
        for mark in headings:
            while stack and stack[-1][0] >= mark.level:
                stack.pop()
            stack.append((mark.level, mark.title or text[mark.start : mark.end].strip()))
            self._paths.append(tuple(title for _, title in stack))

    def chunk(self, start: int, end: int) -> Chunk:
        page = bisect.bisect_right(self._pages, start) if self._pages else None
        path = self._paths[bisect.bisect_right(self._heading_starts, start)]
        return Chunk(start, end, page, path, self._table_head(start))

    def _table_head(self, place: int) -> str:
        """The header of the table that `place` is inside of, unless the chunk begins with the table itself."""
        index = bisect.bisect_right(self._table_starts, place) - 1
        if index < 0:
            return ""
        table = self._tables[index]
        if not table.head_end <= place < table.end:
            return ""
        return self._text[table.start : table.head_end][:MOST_CHARACTERS]
