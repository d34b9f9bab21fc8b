"""Large pastes, kept out of the input line: a chip such as `[Pasted #1, 3,412 lines]` stands for the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST_INLINE = 1_500  # characters
MOST_INLINE_LINES = 8

_CHIP = re.compile(r"\[Pasted #(\d+), [\d,]+ (?:lines?|characters?)\]")


def normalised(text: str) -> str:
    """A paste with \\n line ends; terminals send \\r."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass
class Pastes:
    """The pastes of one input line, by number."""

    texts: dict[int, str] = field(default_factory=dict)

    def take(self, text: str) -> str:
        """What to insert for a paste: the text itself, or a chip where it is large."""
        text = normalised(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LONGEST_INLINE and lines <= MOST_INLINE_LINES:
            return text
        number = max(self.texts, default=0) + 1
        self.texts[number] = text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[Pasted #{number}, {size}]"

    def expand(self, text: str) -> str:
        """`text` with every known chip replaced by what it stands for; other text in brackets stays."""
        return _CHIP.sub(lambda match: self.texts.get(int(match[1]), match[0]), text)

    def chip_ending_at(self, line: str, column: int) -> int | None:
        """The column where a known chip that ends at `column` begins."""
        for match in _CHIP.finditer(line):
            if match.end() == column and int(match[1]) in self.texts:
                return match.start()
        return None

    def chip_starting_at(self, line: str, column: int) -> int | None:
        """The column where a known chip that starts at `column` ends."""
        match = _CHIP.match(line, column)
        return match.end() if match and int(match[1]) in self.texts else None

    def clear(self) -> None:
        self.texts.clear()
