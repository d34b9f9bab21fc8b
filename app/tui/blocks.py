"""A picture as characters: each cell shows two by two pixels in two colours, which every terminal can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The character whose dark quarters are the bits: 1 upper left, 2 upper right, 4 lower left, 8 lower right.
GLYPHS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
_STEPS = 16  # of a colour; fewer colours make longer runs of one style
_CONTRAST = 1.6  # thin strokes turn grey where many pixels become one
_TINT = np.array([1.0, 0.86, 0.30])

Pixels = NDArray[np.uint8]  # [height, width, 3]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Cells of a picture: `glyphs` [rows, columns] index GLYPHS; `dark` and `light` [rows, columns, 3] are RGB."""

    glyphs: NDArray[np.uint8]
    dark: Pixels
    light: Pixels


def inside(pixels: Pixels, boxes: Iterable[tuple[int, int, int, int]]) -> NDArray[np.bool_]:
    """Whether each pixel is in one of the boxes (left, top, right, bottom): [height, width, 1]."""
    found = np.zeros((*pixels.shape[:2], 1), bool)
    for left, top, right, bottom in boxes:
        found[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
    return found


def rows_for(columns: int, pixels: Pixels) -> int:
    """Rows of the picture at so many columns, where a cell is twice as high as wide."""
    height, width = int(pixels.shape[0]), int(pixels.shape[1])
    return max(round(columns * height / width / 2), 1)


def blocks(pixels: Pixels, marked: NDArray[np.bool_], columns: int) -> Blocks:
    """The picture in so many columns; the pixels `marked` [height, width, 1] are tinted as by a marker."""
    rows = rows_for(columns, pixels)
    small = _shrunk(pixels, 2 * rows, 2 * columns)
    small = np.clip(255 - (255 - small) * _CONTRAST, 0, 255)
    small *= 1 - (1 - _TINT) * _shrunk(marked, 2 * rows, 2 * columns)
    # [rows, columns, quarter, 3], quarters in the order of their bits
    quarters = small.reshape(rows, 2, columns, 2, 3).transpose(0, 2, 1, 3, 4).reshape(rows, columns, 4, 3)
    bright = quarters.mean(-1)
    middle = (bright.max(-1, keepdims=True) + bright.min(-1, keepdims=True)) / 2
    is_dark = bright < middle
    glyphs = (is_dark * np.array([1, 2, 4, 8])).sum(-1).astype(np.uint8)
    return Blocks(glyphs, _mean(quarters, is_dark), _mean(quarters, ~is_dark))


def _mean(quarters: NDArray[np.float64], chosen: NDArray[np.bool_]) -> Pixels:
    """The mean colour of the chosen quarters of each cell, in few steps."""
    number = np.maximum(chosen.sum(-1), 1)[..., None]
    mean = (quarters * chosen[..., None]).sum(2) / number
    colours: Pixels = (np.rint(mean / 255 * (_STEPS - 1)) * (255 / (_STEPS - 1))).astype(np.uint8)
    return colours


def _shrunk(pixels: Pixels | NDArray[np.bool_], height: int, width: int) -> NDArray[np.float64]:
    """The mean of the pixels that fall into each of the new ones; where those are more, pixels repeat."""
    found = pixels.astype(np.float64)
    for axis, size in ((0, height), (1, width)):
        old = found.shape[axis]
        starts = np.arange(size) * old // size
        if size >= old:
            found = np.take(found, starts, axis)
            continue
        counts = np.diff(np.append(starts, old))
        found = np.add.reduceat(found, starts, axis) / counts.reshape([-1 if each == axis else 1 for each in range(3)])
    return found
