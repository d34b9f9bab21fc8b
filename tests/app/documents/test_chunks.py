"""Chunks are the text: exact offsets, a hard cap, linear time, and cuts where a reader would make them."""

from __future__ import annotations

import time

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.app.documents.chunk import MOST_CHARACTERS, MOST_WIDE_CHARACTERS, chunks_of
from octavo.app.documents.parsed import Limits, Mark
from octavo.app.documents.plain import parse_plain
from octavo.app.documents.sentences import sentences


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["word ", "Ein Satz. ", "\n", "\n\n", "中文句子。", "x" * 300, "👩‍💻", "# H\n", "\t", "  "]),
        max_size=400,
    ),
    st.lists(st.integers(0, 3000), max_size=8),
)
def test_chunks_joined_are_the_text(pieces: list[str], places: list[int]) -> None:
    text = "".join(pieces)
    pages = sorted(place for place in places if place < len(text))
    marks = [Mark("heading", place, place, 1 + place % 3, str(place)) for place in pages]
    chunks = chunks_of(text, marks, pages)
    assert "".join(text[chunk.start : chunk.end] for chunk in chunks) == text
    assert [chunk.start for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
    assert all(0 < chunk.end - chunk.start <= MOST_CHARACTERS for chunk in chunks)


def test_five_thousand_words_are_not_one_chunk() -> None:
    """openhuman#1882."""
    text = "word " * 5000
    chunks = chunks_of(text)
    assert len(chunks) == 25
    assert all(text[chunk.start : chunk.end].endswith("word ") for chunk in chunks)


def test_linear_time_on_a_million_words_and_on_one_long_line() -> None:
    for unit, count in (("word ", 1_000_000), ("x", 2_000_000)):
        times = []
        for length in (count // 4, count):
            text = unit * length
            started = time.process_time()
            chunks_of(text)
            times.append(time.process_time() - started)
        assert times[1] < 8 * times[0] + 0.2


def test_graphemes_stay_whole() -> None:
    family = "👨‍👩‍👧‍👦"
    text = family * 500
    for chunk in chunks_of(text):
        assert regex.findall(r"\X", text[chunk.start : chunk.end]) == [family] * (
            (chunk.end - chunk.start) // len(family)
        )
    endless = "e" + "\u0301" * 5000
    assert max(chunk.end - chunk.start for chunk in chunks_of(endless)) <= MOST_CHARACTERS


def test_cuts_fall_between_sentences() -> None:
    english = "Dr. Smith paid 3.50 euros on 3. October at the market. " * 60
    chunks = chunks_of(english)
    assert all(english[chunk.start : chunk.end].endswith("market. ") for chunk in chunks)
    chinese = "今天的会议讨论了三个问题，最后决定明年春天再开一次。" * 60
    chunks = chunks_of(chinese)
    assert all(chinese[chunk.start : chunk.end].endswith("一次。") for chunk in chunks)
    assert max(chunk.end - chunk.start for chunk in chunks) <= MOST_WIDE_CHARACTERS


def test_sentences() -> None:
    text = "Mr. A. B. Cee left at 5 p.m. on foot. „Wirklich?“ fragte sie. 他走了。她留下！ See Fig. 3 for e.g. this."
    assert [text[start:end] for start, end in sentences(text)] == [
        "Mr. A. B. Cee left at 5 p.m. on foot.",
        "„Wirklich?“ fragte sie.",
        "他走了。",
        "她留下！",
        "See Fig. 3 for e.g. this.",
    ]


def test_headings_and_tables_are_context() -> None:
    rows = "".join(f"| {n} | value number {n} |\n" for n in range(100))
    text = f"# Book\n\n## Part\n\nWords.\n\n| key | value |\n|---|---|\n{rows}\n## Next\n\nThe end of it.\n"
    parsed = parse_plain(text.encode(), "markdown", Limits())
    chunks = chunks_of(parsed.text, parsed.marks)
    assert chunks[0].headings == ("Book",)
    assert chunks[-1].headings == ("Book", "Next")
    inside = [chunk for chunk in chunks if chunk.head]
    assert len(inside) >= 2
    assert {chunk.head for chunk in inside} == {"| key | value |"}
    assert all(text[chunk.start :].startswith("| ") for chunk in inside)


def test_a_code_block_that_fits_is_not_cut() -> None:
    code = "```py\n" + "x = 1\n" * 80 + "```\n"
    text = "A sentence of some length, to begin with. " * 15 + "\n\n" + code + "\nAfter the code."
    parsed = parse_plain(text.encode(), "markdown", Limits())
    chunks = chunks_of(parsed.text, parsed.marks)
    assert any(code.strip() in text[chunk.start : chunk.end] for chunk in chunks)


def test_a_page_begins_a_chunk() -> None:
    text = "Page one.\n\nPage two.\n\nPage three."
    chunks = chunks_of(text, (), [0, 11, 22])
    assert [(chunk.page, text[chunk.start : chunk.end].strip()) for chunk in chunks] == [
        (1, "Page one."),
        (2, "Page two."),
        (3, "Page three."),
    ]
