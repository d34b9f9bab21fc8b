"""A page of a PDF as a picture, with the places of quotes on it; runs in the process that reads files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pypdfium2 import raw

from octavo.app.documents.parsed import Outcome, ParseError
from octavo.app.documents.pdf import open_pdf

_WIDTH = 1_600  # pixels
_MOST_PIXELS = 6_000_000
_FEWEST = 12  # letters of a quote that have to be found

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels


def render_page(
    path: Path, number: int, quotes: Sequence[tuple[str, float]], password: str | None = None
) -> tuple[dict[str, Any], bytes]:
    """Page `number`, from 1, as RGB rows, and its width, height and the boxes of the quotes in pixels.

    With each quote comes where on the page it is, from 0 to 1, for one that is there twice. Raises ParseError.
    """
    with contextlib.closing(open_pdf(path, password)) as document:
        if not 1 <= number <= len(document):
            raise ParseError(Outcome.FAILED, f"It has no page {number}.")
        with contextlib.closing(document.get_page(number - 1)) as page:
            width, height = page.get_size()
            scale = min(_WIDTH / width, (_MOST_PIXELS / (width * height)) ** 0.5)
            with contextlib.closing(page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)) as bitmap:
                boxes = _boxes(page, bitmap, quotes)
                head = {"width": bitmap.width, "height": bitmap.height, "boxes": boxes}
                return head, _rows(bitmap)


def _rows(bitmap: Any) -> bytes:
    """The pixels without what pads each row, three bytes each."""
    data, used = memoryview(bitmap.buffer).cast("B"), bitmap.width * bitmap.n_channels
    rows = b"".join(data[start : start + used] for start in range(0, bitmap.height * bitmap.stride, bitmap.stride))
    if bitmap.n_channels == 3:
        return rows
    colours = [rows[channel :: bitmap.n_channels] for channel in (range(3) if bitmap.n_channels > 3 else (0, 0, 0))]
    mixed = bytearray(3 * len(colours[0]))
    for channel, values in enumerate(colours):
        mixed[channel::3] = values
    return bytes(mixed)


def _boxes(page: Any, bitmap: Any, quotes: Sequence[tuple[str, float]]) -> list[Box]:
    boxes: list[Box] = []
    to_bitmap = bitmap.get_posconv(page).to_bitmap
    with contextlib.closing(page.get_textpage()) as text:
        letters = [chr(raw.FPDFText_GetUnicode(text, index)) for index in range(text.count_chars())]
        for quote, place in quotes:
            found = find_letters(letters, quote, place)
            for left, bottom, right, top in _rectangles(text, *found) if found is not None else ():
                (x1, y1), (x2, y2) = to_bitmap(left, top), to_bitmap(right, bottom)
                boxes.append((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)))
    return boxes


def _rectangles(text: Any, first: int, last: int) -> Iterator[tuple[float, float, float, float]]:
    """In points: left, bottom, right, top; one a line or less."""
    for index in range(text.count_rects(first, last - first + 1)):
        yield text.get_rect(index)


def find_letters(letters: Sequence[str], quote: str, place: float) -> tuple[int, int] | None:
    """The first and last of the letters that spell the quote, or as much of its beginning as is there.

    White space, hyphens and marks do not count. Of several places, the one nearest to the share `place` is meant.
    """
    spelt, indexes = [], []
    for index, letter in enumerate(letters):
        for part in letter.casefold():
            if part.isalnum():
                spelt.append(part)
                indexes.append(index)
    text, wanted = "".join(spelt), "".join(filter(str.isalnum, quote.casefold()))
    length = len(wanted)
    while length >= min(_FEWEST, len(wanted)) and length:
        starts = list(_occurrences(text, wanted[:length]))
        if starts:
            start = min(starts, key=lambda start: abs(start - place * len(text)))
            return indexes[start], indexes[start + length - 1]
        length = length * 3 // 4
    return None


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    start = text.find(wanted)
    while start >= 0:
        yield start
        start = text.find(wanted, start + 1)
