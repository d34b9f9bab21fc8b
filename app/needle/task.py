"""What a task asks, and what it makes of a seed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from octavo.app.needle.scoring import IsValue


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a text, and what counts as its answer.

    `opening` is how the answer begins, given to the model as in RULER, so that it goes on with the value. `depth` is
    where the needle lies, None where there is no such place. A question `in_chat` is put as a user's message, any other
    as text that goes on after the haystack.
    """

    text: str
    opening: str
    expected: tuple[str, ...]
    is_value: IsValue
    answer_tokens: int
    depth: float | None
    in_chat: bool = True


@dataclass(frozen=True, slots=True)
class Context:
    """The ids that all `questions` have before them, and the questions."""

    ids: list[int]
    questions: list[Question]

    def fingerprint(self) -> str:
        """A hash of all that the model is given and asked."""
        asked = [[each.text, each.opening, each.answer_tokens, each.in_chat] for each in self.questions]
        return hashlib.sha256(json.dumps([self.ids, asked]).encode()).hexdigest()
