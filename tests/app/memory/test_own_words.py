"""What of a message its writer wrote: whatever is pasted, it is told apart, and soon."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app.memory.extract import extract
from octavo.app.memory.normalise import statements
from octavo.app.memory.own_words import LONGEST_TYPED, own_text, typed_text
from octavo.storage.records import StoredMessage

# The same as one pattern, which takes time that grows with the square of what is pasted.
_PLAIN = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|^[ \t]*>.*$|\"[^\"\n]{12,}\"|“[^”\n]{12,}”|「[^」\n]{6,}」|"
    r"《[^》\n]*》|<(?P<tag>[a-z_]+)>.*?</(?P=tag)>",
    re.DOTALL | re.MULTILINE,
)
_PARTS = (
    "```", "~~~", "`", "\n", "\n>", '"', "“", "”", "「", "」", "《", "》", "<a>", "</a>", "<b_c>", "</b_c>", "<br>",
    "hello there world ", " ", "我喜欢你们大家",
)  # fmt: skip
PLAY = resources.files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8")


def message(text: str) -> StoredMessage:
    now = datetime.now(UTC).isoformat()
    return StoredMessage("1", "c", None, "user", text, "complete", now, (), "", {})


@given(st.lists(st.sampled_from(_PARTS), max_size=24).map("".join))
def test_foreign_text_is_what_one_pattern_finds(text):
    assert own_text(text) == _PLAIN.sub(lambda found: " " * len(found[0]), text)


@pytest.mark.parametrize("part", ["<br>\n", "<a><b>", "“", "「", "《", '"', "`", "<p>hi "])
def test_no_paste_is_searched_to_its_end_again_and_again(part):
    """As one pattern, this would hold the interpreter, and the screen, for many seconds."""
    text = part * (300_000 // len(part))
    assert len(own_text(text)) == len(text)


@pytest.mark.parametrize(
    "text", ["{paste}\n\n{own}", "{own}\n\n{paste}", "{own}\n{log}", "{log}\n{own}", "{own}\n\n{paste}\n\nThanks!"]
)
def test_what_was_pasted_is_not_about_its_reader(text):
    own = "I am allergic to peanuts."
    log = "GET /index 200\n" * 200 + "My name is Nym and I live in Windsor.\n" + "GET /index 200\n" * 200
    kept = extract(message(text.format(own=own, paste=PLAY[:60_000], log=log.strip())))
    assert [statement.quote for statement in kept] == [own]


@pytest.mark.parametrize("size", [100, LONGEST_TYPED, LONGEST_TYPED + 1, 60_000])
def test_the_length_stays(size):
    for text in (PLAY[:size], "a" * size, "a\n" * (size // 2), "\n\n" * (size // 2), " " * size):
        assert len(typed_text(text)) == len(text)
    assert typed_text(PLAY[:LONGEST_TYPED]) == own_text(PLAY[:LONGEST_TYPED])


@pytest.mark.parametrize(
    "before", ["Fix", "I like", "I moved", "My name is", "I live in Berlin and I like", "", "因为我喜欢"]
)
@pytest.mark.parametrize("unit", [" ", "- ", "— ", ", ", "\t", "1", "a", "的", "(", "我 "])
def test_a_long_stretch_inside_a_sentence_is_read_in_one_pass(before, unit):
    """Inline code leaves as many spaces as it had characters: with patterns that begin at each of them, 20,000 would
    hold the interpreter for hours.
    """
    assert statements(f"{before} {unit * (20_000 // len(unit))} please, I live in Berlin.", date(2026, 11, 30))


@pytest.mark.parametrize("size", [10, 20_000])
def test_what_stands_around_code_is_read(size):
    kept = extract(message(f"Look at `{'x' * size}` again, but I am allergic to peanuts."))
    assert [statement.quote for statement in kept] == ["I am allergic to peanuts."]
