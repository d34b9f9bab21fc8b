"""What reading a file gives: its text, what stands where in it, and how it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal


class Outcome(StrEnum):
    """How reading a file went. Only OK has text that can be asked about."""

    OK = "ok"
    SCANNED = "scanned"  # pictures of pages, without text
    ENCRYPTED = "encrypted"  # needs a password, or has one that Octavo cannot use
    EMPTY = "empty"
    GARBLED = "garbled"  # most characters are not what was written
    UNSUPPORTED = "unsupported"
    FAILED = "failed"  # damaged, or over a limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take; going over any of them ends in Outcome.FAILED, over `pages` in a note."""

    cpu_seconds: int = 120
    wall_seconds: float = 300.0
    memory_bytes: int = 3 << 30
    file_bytes: int = 512 << 20
    text_characters: int = 256_000_000
    pages: int = 10_000


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of the text with a meaning. `level` and `title` are a heading's; a table's header ends at `head_end`.

    A heading that stands in no line of its own, as in the outline of a PDF, has start == end.
    """

    kind: Literal["heading", "table", "code", "json"]
    start: int
    end: int
    level: int = 0
    title: str = ""
    head_end: int = 0


@dataclass(frozen=True, slots=True)
class Hidden:
    """Text that a reader of the document does not see and that was left out, with the beginning of it."""

    characters: int
    where: str
    sample: str


@dataclass(slots=True)
class Parsed:
    """A file as read. Offsets count code points of `text`; `pages` are the starts of the pages, if it has any."""

    kind: str
    outcome: Outcome = Outcome.OK
    text: str = ""
    pages: list[int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    title: str = ""
    encoding: str = ""
    notes: list[str] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)
    pages_without_text: list[int] = field(default_factory=list)
    unknown_share: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Everything but text and marks, in values that JSON has."""
        document = asdict(self)
        for key in ("text", "pages", "marks"):
            del document[key]
        return document


class ParseError(Exception):
    """A file cannot be read; `outcome` says in which way, the text is one sentence that says what to do."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
