"""Which parts of a document the attention of an answer selected, as places in the document.

They are what was looked at, not why the answer is what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from octavo.app.documents import prompt

if TYPE_CHECKING:
    from octavo.app.documents.citations import Citation
    from octavo.app.documents.whole import Whole
    from octavo.engine.events import PagesRead
    from octavo.engine.tokenizer import Tokenizer

_MOST = 12


@dataclass(frozen=True, slots=True)
class ReadPart:
    """text[start:end] of the document, on `page`, was selected `times` times by the layers; `cited` names citations
    whose quote lies in it."""

    document: str
    page: int | None
    start: int
    end: int
    times: int
    text: str
    cited: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The part in values that JSON has."""
        return {name: getattr(self, name) for name in self.__slots__} | {"cited": list(self.cited)}


def parts_read(
    pages: PagesRead, prompt_ids: Sequence[int], whole: Whole, tokenizer: Tokenizer, citations: Sequence[Citation]
) -> tuple[ReadPart, ...] | None:
    """The parts selected most often, the first one first; None where every page was read for every token.

    `prompt_ids` are those of the answer's prompt, which begins with `whole`.
    """
    if pages.dense:
        return None
    places = _Places(prompt_ids, whole, tokenizer)
    parts: list[ReadPart] = []
    for place, times in pages.chosen:
        span = places.span(place * pages.page_size, (place + 1) * pages.page_size)
        if span is not None and len(parts) < _MOST:
            cited = dict.fromkeys(c.id for c in citations if c.start < span[1] and c.end > span[0])
            text = places.text(span)
            page = sum(start <= span[0] for start in whole.document.pages) if whole.document.pages else None
            parts.append(ReadPart(whole.document.id, page, *span, times, text, tuple(cited)))
    return tuple(parts)


class _Places:
    """From tokens of the prompt to characters of the document."""

    def __init__(self, prompt_ids: Sequence[int], whole: Whole, tokenizer: Tokenizer) -> None:
        self._ids, self._decode = prompt_ids, tokenizer.decode
        self._sources = whole.sources
        shown = prompt.places(whole.sources)
        first = tokenizer.decode(prompt_ids[: whole.num_tokens]).find(prompt.fenced(whole.sources)[:80])
        # A tokenizer that does not give a text back as it was has no places to offer.
        self._spans = [(first + start, first + end) for start, end in shown if first >= 0]

    def span(self, first: int, end: int) -> tuple[int, int] | None:
        """Where the tokens `first` to `end` stand in the document; None for what is not of it."""
        begin = len(self._decode(self._ids[:first]))
        stop = begin + len(self._decode(self._ids[first:end]))
        inside = [place for place, (start, after) in enumerate(self._spans) if start < stop and after > begin]
        if not inside:
            return None
        return self._place(inside[0], begin), self._place(inside[-1], stop)

    def text(self, span: tuple[int, int]) -> str:
        """The document's text there."""
        pieces = [
            source.chunk[max(span[0] - source.start, 0) : max(span[1] - source.start, 0)] for source in self._sources
        ]
        return " ".join("".join(pieces).split())

    def _place(self, index: int, place: int) -> int:
        source, (start, end) = self._sources[index], self._spans[index]
        lead = len(source.chunk) - len(source.chunk.lstrip())
        return min(source.start + lead + min(max(place, start), end) - start, source.end)
