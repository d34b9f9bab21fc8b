"""Puts the ids of generated answers back into a rendered conversation, where a second encoding would change them."""

import re
from collections.abc import Sequence


class Slots:
    """Stand-ins, written with a character that no text holds, for contents whose ids are known already."""

    def __init__(self, character: str) -> None:
        self._character = character
        self._written = re.compile(f"{character}([0-9]+){character}")

    def stand_in(self, index: int) -> str:
        return f"{self._character}{index}{self._character}"

    def split(self, rendered: str, expected: Sequence[int]) -> list[tuple[str, int | None]] | None:
        """The text before each stand-in with its index, then the rest with None.

        None unless every stand-in in `expected` is there once, whole and in order: a template may cut, drop or
        escape what it is given.
        """
        parts = self._written.split(rendered)
        texts, indices = parts[::2], [int(index) for index in parts[1::2]]
        if indices != list(expected) or any(self._character in text for text in texts):
            return None
        return list(zip(texts, [*indices, None], strict=True))


def opening(opened: str, closed: str) -> str:
    """What a model reads right before its answer, given a conversation with and without the generation prompt.

    Where a template adds no generation prompt, it is the white space that the conversation ends with.
    """
    prompt = opened[len(closed) :] if opened.startswith(closed) else ""
    return prompt or opened[len(opened.rstrip()) :]


def opened_like(before: str, prompt: str) -> str:
    """`before`, the text up to an earlier answer, ending as it did when that answer was generated.

    Templates write an answer of the past with other white space than the prompt it followed, or leave out the part
    of the prompt that opened its reasoning; the pages of the past turn are found only by the very same ids.
    """
    stem = before.rstrip()
    for end in range(len(prompt), 0, -1):
        shared = prompt[:end].rstrip()
        if shared and stem.endswith(shared):
            return stem + prompt[len(shared) :]
    return before if prompt.strip() else stem + prompt
