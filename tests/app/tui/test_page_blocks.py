"""Pictures as characters: dark quarters, two colours a cell, and what is marked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.app.tui.blocks import GLYPHS, blocks, inside, rows_for


def picture(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), 255, np.uint8)


def none(pixels: np.ndarray) -> np.ndarray:
    return inside(pixels, ())


@pytest.mark.parametrize("glyph", range(16))
def test_each_pattern_of_quarters_has_its_character(glyph: int) -> None:
    pixels = picture(4, 4)
    for bit in range(4):
        if glyph >> bit & 1:
            pixels[2 * (bit // 2) : 2 * (bit // 2) + 2, 2 * (bit % 2) : 2 * (bit % 2) + 2] = 0
    found = blocks(np.repeat(pixels, 2, 0), none(np.repeat(pixels, 2, 0)), 1)
    shown = GLYPHS[found.glyphs[0, 0]]
    if glyph == 15:  # one colour: a blank on it
        assert (shown, found.light[0, 0].tolist()) == (" ", [0, 0, 0])
    else:
        assert shown == GLYPHS[glyph]
        assert found.light[0, 0].tolist() == [255, 255, 255]
        assert found.dark[0, 0].tolist() == [0, 0, 0]


def test_glyphs_are_the_quarters_that_their_bits_say() -> None:
    assert GLYPHS[1] + GLYPHS[2] + GLYPHS[4] + GLYPHS[8] == "▘▝▖▗"
    assert (GLYPHS[0], GLYPHS[3], GLYPHS[12], GLYPHS[5], GLYPHS[10], GLYPHS[15]) == (" ", "▀", "▄", "▌", "▐", "█")
    assert len(set(GLYPHS)) == 16


def test_a_mark_is_yellow_paper_with_black_ink() -> None:
    pixels = picture(80, 40)
    pixels[40:60, :20] = 0
    found = blocks(pixels, inside(pixels, [(-5, 40, 40, 999)]), 10)
    assert found.light[2, 0].tolist() == [255, 255, 255]
    red, green, blue = found.light[8, 9].tolist()
    assert red == 255 > green > blue
    assert found.light[6, 0].tolist() == [0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 80))
def test_any_size_fits_any_width(height: int, width: int, columns: int) -> None:
    pixels = picture(height, width)
    found = blocks(pixels, none(pixels), columns)
    assert found.glyphs.shape == (rows_for(columns, pixels), columns)
    assert (found.glyphs == 0).all()
    assert (found.light == 255).all()
