"""Text as it may be shown: nothing that moves the cursor, turns the direction or is taken for markup."""

from __future__ import annotations

import re

# Overrides and embeddings reorder everything after them up to the end of the row, the frame included; the marks
# and isolates that honest right-to-left text needs stay.
_REORDERING = "\u202a\u202b\u202c\u202d\u202e"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_REORDERING}]")
_TAB = 4


def visible(text: str) -> str:
    """`text` with line ends as \\n, tabs as spaces, and control characters as their pictures (ESC is ␛)."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(_TAB)
    return _UNSAFE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�" if code < 0xA0 else ""


def one_line(text: str, longest: int = 200) -> str:
    """The text on one line, for titles and lists."""
    line = " ".join(visible(text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def count(number: int, noun: str) -> str:
    """`count(3412, "line")` is "3,412 lines"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def seconds(value: float) -> str:
    """A duration: "0.8 s", "42 s", "3 min 05 s"."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 60:
        return f"{value:.0f} s"
    return f"{int(value) // 60} min {int(value) % 60:02d} s"
