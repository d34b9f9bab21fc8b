"""A page of a document as a picture, with what is cited marked on it. Arrows move it.

Drawn in quarter blocks, which every terminal has. To find out whether a terminal knows Kitty's protocol or sixel it has
to be asked before Textual reads its input, which costs more than the first frame takes, swallows keys that are pressed
meanwhile, and in tmux leaves answers that come late on the command line.
"""

from __future__ import annotations

import functools
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from octavo.app.tui.blocks import GLYPHS, Blocks, Pixels, blocks, inside

if TYPE_CHECKING:
    from octavo.app.documents.picture import PagePicture

_ZOOMS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # times the width of the view
_MOST_COLUMNS = 800  # the picture's own pixels in two by column


class PageView(ScrollView, can_focus=True):
    """Begins as wide as the view, with what is cited in its middle."""

    DEFAULT_CSS = "PageView { overflow: auto scroll; scrollbar-size: 1 1; }"

    def __init__(self, picture: PagePicture, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._boxes, self._shape = picture.boxes, (picture.width, picture.height)
        rows = np.frombuffer(picture.pixels, np.uint8).reshape(picture.height, picture.width, 3)
        self._pixels: Pixels = rows
        self._marked = inside(rows, picture.boxes)
        self._blocks: Blocks | None = None
        self._zoom = 0

    def on_resize(self, event: events.Resize) -> None:
        """The same part of the page, in as many columns as there are now."""
        self._draw()

    def zoom(self, step: int) -> None:
        """Larger or smaller, about what is cited."""
        self._zoom = min(max(self._zoom + step, 0), len(_ZOOMS) - 1)
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        if width < 2:
            return
        columns = min(int(width * _ZOOMS[self._zoom]), _MOST_COLUMNS)
        self._blocks = blocks(self._pixels, self._marked, columns)
        rows = self._blocks.glyphs.shape[0]
        self.virtual_size = Size(columns, rows)
        self.refresh()
        if self._boxes:
            scale = columns / self._shape[0], rows / self._shape[1]
            left, top = (min(box[side] for box in self._boxes) * scale[side] for side in (0, 1))
            right, bottom = (max(box[side] for box in self._boxes) * scale[side - 2] for side in (2, 3))
            region = Region(int(left), int(top), int(right - left) + 1, int(bottom - top) + 1)
            self.call_after_refresh(
                lambda: self.scroll_to_region(region, animate=False, center=True, force=True, origin_visible=True)
            )

    def render_line(self, y: int) -> Strip:
        """One row of cells, those with the same colours together."""
        x, row = self.scroll_offset.x, self.scroll_offset.y + y
        width = self.size.width
        found = self._blocks
        if found is None or row >= found.glyphs.shape[0]:
            return Strip.blank(width, self.rich_style)
        cells = slice(x, x + width)
        glyphs, dark, light = found.glyphs[row, cells], found.dark[row, cells], found.light[row, cells]
        segments: list[Segment] = []
        place = 0
        keys = [(*one, *other) for one, other in zip(dark.tolist(), light.tolist(), strict=True)]
        for key, run in groupby(keys):
            length = sum(1 for _ in run)
            text = "".join(GLYPHS[glyph] for glyph in glyphs[place : place + length])
            segments.append(Segment(text, _style(key)))
            place += length
        return Strip(segments, place).adjust_cell_length(width, self.rich_style)


@functools.lru_cache(4096)
def _style(key: tuple[int, ...]) -> Style:
    dark, light = Color.from_rgb(*key[:3]), Color.from_rgb(*key[3:])
    return Style(color=dark, bgcolor=light)
