"""Text put together block by block, with marks whose offsets hold whatever was cleaned away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from octavo.app.documents.clean import cleaned
from octavo.app.documents.parsed import Hidden, Limits, Mark, Outcome, ParseError

_SAMPLE = 400


class TextBuilder:
    """Blocks are separated by an empty line. Raises ParseError when the text grows past its limit."""

    def __init__(self, limits: Limits) -> None:
        self.marks: list[Mark] = []
        self.hidden: list[Hidden] = []
        self.pages: list[int] = []
        self.num_invisible = 0
        self._limit = limits.text_characters
        self._pieces: list[str] = []
        self._length = 0

    @property
    def length(self) -> int:
        """Characters so far."""
        return self._length

    def text(self) -> str:
        """Everything so far."""
        return "".join(self._pieces)

    def page(self) -> None:
        """What follows stands on a new page."""
        self._separate()
        self.pages.append(self._length)

    def paragraph(self, text: str) -> None:
        """A block of text; an empty one is nothing."""
        self._block(text)

    def heading(self, text: str, level: int) -> None:
        """A heading in a block of its own."""
        start, end = self._block(" ".join(text.split()))
        if end > start:
            self.marks.append(Mark("heading", start, end, level, " ".join(text.split())))

    def code(self, text: str) -> None:
        """A block that is not to be cut or reflowed."""
        start, end = self._block(text)
        if end > start:
            self.marks.append(Mark("code", start, end))

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """A table, one row a line, cells between bars; the first row is its header."""
        lines = [" | ".join(" ".join(cell.split()) for cell in row) for row in rows]
        lines = [line for line in lines if line.strip(" |")]
        if not lines:
            return
        head = len(cleaned(lines[0])[0])
        start, end = self._block("\n".join(lines), strip=False)
        self.marks.append(Mark("table", start, end, head_end=start + head))

    def hide(self, text: str, where: str) -> None:
        """Note text that a reader does not see; it is not part of the document."""
        if text.strip():
            self.hidden.append(Hidden(len(text), where, cleaned(" ".join(text[: _SAMPLE * 2].split()))[0][:_SAMPLE]))

    def _block(self, text: str, *, strip: bool = True) -> tuple[int, int]:
        kept, gone = cleaned(text)
        self.num_invisible += gone
        kept = kept.strip() if strip else kept
        if not kept:
            return self._length, self._length
        self._separate()
        start = self._length
        self._add(kept)
        return start, self._length

    def _separate(self) -> None:
        if self._pieces and self._pieces[-1] != "\n\n":
            self._add("\n\n")

    def _add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._limit:
            raise ParseError(Outcome.FAILED, f"Its text is longer than {self._limit:,} characters.")
