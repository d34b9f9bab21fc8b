"""Text on a PDF page that nobody sees: invisible, white on white, too small to read, or beside the page.

The text under a scanned picture is invisible too, and it is what makes the scan searchable: it counts as visible.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pypdfium2 import raw

_TINY = 1.0  # points
_WHITE = 250
_COVERS = 0.5  # share of the page that a scan's picture covers at least
_DEPTH = 4

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points


class PageObjects:
    """What stands on a page. `hidden` holds the addresses of the text objects that are not seen."""

    def __init__(self, page: Any) -> None:
        self._width, self._height = page.get_size()
        self.hidden: set[int] = set()
        self.num_objects = 0
        self._behind: list[Box] = []  # of pictures and coloured areas, in drawing order
        self._has_scan = False
        texts = []
        for item in page.get_objects(max_depth=_DEPTH):
            self.num_objects += 1
            if item.type == raw.FPDF_PAGEOBJ_TEXT:
                texts.append((item, len(self._behind)))
            elif item.type == raw.FPDF_PAGEOBJ_IMAGE or (
                item.type == raw.FPDF_PAGEOBJ_PATH and not _is_white(item.raw)
            ):
                box = _bounds(item.raw)
                self._behind.append(box)
                if item.type == raw.FPDF_PAGEOBJ_IMAGE:
                    covered = (box[2] - box[0]) * (box[3] - box[1])
                    self._has_scan |= covered > _COVERS * self._width * self._height
        for item, num_before in texts:
            if self._is_hidden(item.raw, num_before):
                self.hidden.add(_address(item.raw))

    def split(self, textpage: Any) -> tuple[str, str]:
        """The page's text as seen, and the text that is not."""
        seen: list[str] = []
        unseen: list[str] = []
        last_hidden = False
        for index in range(textpage.count_chars()):
            character = chr(raw.FPDFText_GetUnicode(textpage, index))
            owner = raw.FPDFText_GetTextObject(textpage, index)
            # Spaces and line ends that PDFium adds belong to no object.
            last_hidden = _address(owner) in self.hidden if owner else last_hidden
            (unseen if last_hidden else seen).append(character)
        return "".join(seen), "".join(unseen)

    def _is_hidden(self, item: Any, num_before: int) -> bool:
        left, bottom, right, top = box = _bounds(item)
        if right < 0 or top < 0 or left > self._width or bottom > self._height:
            return True
        if raw.FPDFTextObj_GetTextRenderMode(item) == raw.FPDF_TEXTRENDERMODE_INVISIBLE:
            return not self._has_scan
        if top - bottom < _TINY < right - left and _font_height(item) < _TINY:  # dashes and dots are low, too
            return True
        return _is_white(item) and not any(_contains(behind, box) for behind in self._behind[:num_before])


def _address(item: Any) -> int:
    return ctypes.cast(item, ctypes.c_void_p).value or 0


def _bounds(item: Any) -> Box:
    edges = [ctypes.c_float() for _ in range(4)]
    if not raw.FPDFPageObj_GetBounds(item, *edges):
        return 0.0, 0.0, 0.0, 0.0
    left, bottom, right, top = (edge.value for edge in edges)
    return left, bottom, right, top


def _font_height(item: Any) -> float:
    """The size of a text's font on the page, in points."""
    size, matrix = ctypes.c_float(), raw.FS_MATRIX()
    if not raw.FPDFTextObj_GetFontSize(item, size) or not raw.FPDFPageObj_GetMatrix(item, matrix):
        return 0.0
    return float(size.value * (matrix.c**2 + matrix.d**2) ** 0.5)


def _is_white(item: Any) -> bool:
    """White or transparent; what has no colour of its own is black."""
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if not raw.FPDFPageObj_GetFillColor(item, red, green, blue, alpha):
        return False
    return alpha.value == 0 or min(red.value, green.value, blue.value) >= _WHITE


def _contains(outer: Box, inner: Box) -> bool:
    """True if the middle of `inner` lies in `outer`."""
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]
