"""Finds the written form of special tokens in a text, and keeps it from being found."""

import re
from collections.abc import Iterator, Mapping


class SpecialTokens:
    """Literals and their ids; of several that match at one place the longest counts, as in the references."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = dict(ids)
        ordered = "|".join(re.escape(literal) for literal in sorted(ids, key=len, reverse=True))
        self._found = re.compile(ordered) if ids else None
        self._begun = re.compile(f"(?={ordered})") if ids else None

    def split(self, text: str) -> Iterator[tuple[str, int | None]]:
        """The stretches of ordinary text, each with the id of the token that ends it; the last has none."""
        start = 0
        for match in self._found.finditer(text) if self._found else ():
            yield text[start : match.start()], self._ids[match.group()]
            start = match.end()
        yield text[start:], None

    def broken(self, text: str, mark: str) -> str:
        """`text` with `mark` after the first character of every literal, so that none is left in it.

        Overlapping literals are broken too, and nothing is added before or after the text, which a template
        may strip or compare.
        """
        if self._begun is None:
            return text
        pieces = []
        start = 0
        for match in self._begun.finditer(text):
            pieces += [text[start : match.start() + 1], mark]
            start = match.start() + 1
        return "".join([*pieces, text[start:]])
