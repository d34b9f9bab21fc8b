"""Cutting long messages into pieces that are Markdown documents of their own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from octavo.app.tui.pieces import HARD_LIMIT, SOFT_LIMIT, Cut, PieceSplitter, split

LINES = st.sampled_from(
    ["", "Text of a paragraph.", "# Heading", "- item", "  more", "```python", "```", "x = 1", "~~~"]
)


def rejoined(text: str) -> str:
    """The pieces put together again, without the fence lines that cuts have added."""
    parts = [part for part in PieceSplitter().feed(text) if not isinstance(part, Cut)]
    return "".join(parts)


@given(st.lists(LINES, max_size=400), st.integers(1, 700))
@settings(max_examples=40, deadline=None)
def test_no_character_is_lost_and_streaming_cuts_where_the_whole_does(lines, size):
    text = "\n".join(lines) * 4
    assert rejoined(text) == text
    splitter, streamed = PieceSplitter(), []
    for start in range(0, len(text), size):
        streamed += splitter.feed(text[start : start + size])
    assert "".join(part for part in streamed if isinstance(part, str)) == text
    assert all(len(piece.text) < 3 * HARD_LIMIT for piece in split(text))


def test_a_short_text_is_one_piece():
    assert [piece.text for piece in split("Hello")] == ["Hello"]
    assert [piece.text for piece in split("")] == [""]


def test_pieces_begin_at_blocks():
    text = "".join(f"Paragraph {number} with some words in it.\n\n" for number in range(500))
    pieces = split(text)
    assert "".join(piece.text for piece in pieces) == text
    assert len(pieces) > 3
    assert all(piece.text.startswith("Paragraph") for piece in pieces)
    assert max(len(piece.text) for piece in pieces) < SOFT_LIMIT + 100


def test_a_long_code_block_is_closed_and_opened_again():
    code = "".join(f"value_{number} = {number}\n" for number in range(2_000))
    pieces = split(f"Look:\n\n```python\n{code}```\n\nDone.\n")
    assert len(pieces) > 3
    assert pieces[1].cut_start
    assert pieces[1].cut_end
    assert not pieces[-1].cut_end
    tokens = [token for piece in pieces for token in MarkdownIt().parse(piece.text)]
    fences = [token for token in tokens if token.type == "fence"]
    assert {token.info for token in fences} == {"python"}
    assert "".join(token.content for token in fences) == code


@pytest.mark.parametrize("text", ["x" * 50_000, "word " * 10_000])
def test_one_endless_line_is_cut_too(text):
    pieces = split(text)
    assert "".join(piece.text for piece in pieces) == text
    assert max(len(piece.text) for piece in pieces) <= 3 * HARD_LIMIT
