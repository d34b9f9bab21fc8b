"""A conversation as the transcript shows it: a list of parts, each one piece of one message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.tui.pieces import Piece, split

if TYPE_CHECKING:
    from octavo.storage.conversations import StoredMessage

# What a layout costs grows with the widgets: some for a part, about one for a line.
_PART_COST = 200
_LINE_COST = 60
# A question longer than one of these folds.
FOLDED_LINES = 20
FOLDED_CHARACTERS = 2_500


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message, with what its entry shows around it.

    `branches` are the ids of this message and its siblings, oldest first; `left_out` is why the message was not
    part of the last prompt, else empty.
    """

    message: StoredMessage
    piece: Piece
    index: int = 0
    is_last: bool = True
    branches: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def cost(self) -> int:
        """What it costs to have on the screen, in characters of one long line."""
        text = self.piece.text
        if self.message.role == "user":
            return min(len(text), FOLDED_CHARACTERS) + _PART_COST
        return len(text) + _LINE_COST * text.count("\n") + _PART_COST


def parts_of(message: StoredMessage, left_out: str = "") -> list[Part]:
    """The parts of a message; user text is one part, which folds instead."""
    pieces = [Piece(message.text)] if message.role == "user" else split(message.text)
    last = len(pieces) - 1
    return [Part(message, piece, index, index == last, (), left_out) for index, piece in enumerate(pieces)]


def how_many(parts: Iterable[Part], budget: int) -> int:
    """How many of the parts the budget allows, at least one if there is one."""
    number = 0
    for part in parts:
        budget -= part.cost
        if budget < 0 and number:
            break
        number += 1
    return number
