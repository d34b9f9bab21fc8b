"""A document at an exact place: what a citation points to, or what the attention selected.

A page of a PDF is shown as a picture, too: beside the text where the terminal is wide, else in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from octavo.app.tui.text import one_line, visible

if TYPE_CHECKING:
    from octavo.app.documents.picture import PagePicture
    from octavo.app.documents.shelf import Shelf
    from octavo.storage.documents import StoredDocument

_AROUND = 3_000  # characters before and after
_BROAD = 130  # columns
_FOOT = "[@click=screen.dismiss]Esc closes[/] · [@click=screen.copy]c copies[/]"


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document's text with `marks` in it, as (start, end) in `text`; the `current` one is meant.

    `start` is where the text begins in the document, `page` the number of the page that is meant, if there are pages.
    """

    document: StoredDocument
    page: int | None
    heading: str
    start: int
    text: str
    marks: tuple[tuple[int, int], ...]
    current: int

    @property
    def marked(self) -> str:
        """The text that is meant."""
        return self.text[slice(*self.marks[self.current])]

    def quotes(self) -> list[tuple[int, str]]:
        """The marked texts, the one that is meant first, with their places in the document."""
        marks = [self.marks[self.current], *self.marks]
        return [(self.start + start, self.text[start:end]) for start, end in dict.fromkeys(marks)]

    def shown(self, start: int, end: int) -> Content:
        """text[start:end], with the other marks underlined."""
        edges = sorted({start, end, *(min(max(place, start), end) for mark in self.marks for place in mark)})
        others = [mark for place, mark in enumerate(self.marks) if place != self.current]
        pieces = [
            (visible(self.text[first:last]), "underline" if any(a <= first < b for a, b in others) else "")
            for first, last in pairwise(edges)
        ]
        return Content.assemble(*pieces)


def passage(shelf: Shelf, document_id: str, spans: Sequence[tuple[int, int]], current: int = 0) -> Passage:
    """The places in the document as it is now. Raises StorageError if the document is gone."""
    from octavo.storage.errors import StorageError

    documents = shelf.documents()
    if documents is None:
        raise StorageError("The document is not in the library any more.")
    document = documents.resolve(document_id)
    start, end = spans[current]
    first, last = max(min(start for start, _ in spans) - _AROUND, 0), max(end for _, end in spans) + _AROUND
    chunks = documents.chunks_between(document, first, last)
    text, base = "".join(chunk.text for chunk in chunks), chunks[0].start if chunks else 0
    first, last = max(first, base), min(last, base + len(text))
    here = next((chunk for chunk in chunks if chunk.start <= start < chunk.stop), None)
    page = sum(each <= start for each in document.pages) if document.pages else None
    parts = [document.name, f"page {page} of {len(document.pages)}" if page else ""]
    parts += [" › ".join(here.headings) if here is not None else "", f"characters {start:,}-{end:,}"]
    marks = tuple((max(start - first, 0), max(end - first, 0)) for start, end in spans)
    heading = " · ".join(part for part in parts if part)
    return Passage(document, page, heading, first, text[first - base : last - base], marks, current)


class SourceScreen(ModalScreen[None]):
    """Shows `spans` of a document's text marked, the `current` one in the middle of what stands around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "dismiss", "Close"),
        ("c", "copy", "Copy"),
        ("p", "page", "Page"),
        ("plus,equals_sign", "larger", "Larger"),
        ("minus", "smaller", "Smaller"),
    ]

    @dataclass
    class Pictured(Message):
        """The page as a picture, or the sentence that says why there is none."""

        picture: PagePicture | str

    @dataclass
    class Found(Message):
        """The place, or the sentence that says why there is none."""

        passage: Passage | str

    def __init__(
        self, shelf: Shelf, document_id: str, spans: Sequence[tuple[int, int]], title: str = "", current: int = 0
    ) -> None:
        super().__init__()
        self._shelf, self._title = shelf, title
        self._document_id, self._spans, self._current = document_id, spans, current
        self.passage: Passage | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall", id="source-dialog"):
            yield Static(self._title or "Source", classes="dialog-title", id="source-title", markup=False)
            with Horizontal(id="source-views"), VerticalScroll(id="source"):
                yield Static("Opening…", id="source-before", markup=False)
                yield Static("", id="source-text", markup=False)
                yield Static("", id="source-after", markup=False)
            yield Static(_FOOT, classes="dialog-foot", id="source-foot")

    def on_resize(self, event: events.Resize) -> None:
        """Text and picture beside each other where there is room for both."""
        self.set_class(event.size.width >= _BROAD, "-broad")

    def on_mount(self) -> None:
        self.query_one("#source").focus()
        self.run_worker(self._look, thread=True)

    def _look(self) -> None:
        from octavo.app.documents.picture import has_pictures, page_picture

        try:
            found = passage(self._shelf, self._document_id, self._spans, self._current)
        except Exception as error:
            self.post_message(self.Found(str(error)))
            return
        self.post_message(self.Found(found))
        if found.page is None or not has_pictures(found.document):
            return
        try:
            self.post_message(self.Pictured(page_picture(found.document, found.page, found.quotes())))
        except Exception as error:
            self.post_message(self.Pictured(str(error)))

    def on_source_screen_found(self, event: Found) -> None:
        """Show it, with the marked place in view."""
        if isinstance(event.passage, str):
            self.query_one("#source-before", Static).update(event.passage)
            return
        found = self.passage = event.passage
        title = f"{self._title}  {found.heading}" if self._title else found.heading
        self.query_one("#source-title", Static).update(one_line(title))
        start, end = found.marks[found.current]
        self.query_one("#source-before", Static).update(found.shown(0, start).rstrip("\n"))
        marked = self.query_one("#source-text", Static)
        marked.update(found.shown(start, end))
        after = end + found.text[end : end + 1].isspace()  # each of the three begins a line of its own
        self.query_one("#source-after", Static).update(found.shown(after, len(found.text)))
        self.call_after_refresh(lambda: self.query_one("#source").scroll_to_center(marked, animate=False))

    async def on_source_screen_pictured(self, event: Pictured) -> None:
        """Show the page beside the text, or say how to."""
        foot = self.query_one("#source-foot", Static)
        if isinstance(event.picture, str):
            foot.update(Content.assemble(Content.from_markup(_FOOT), "\n", event.picture))
            return
        from octavo.app.tui.widgets.page_view import PageView

        await self.query_one("#source-views").mount(PageView(event.picture, id="source-page"))
        self.add_class("-pictured")
        page, size = "[@click=screen.page]p page[/]", "[@click=screen.larger]+[/] [@click=screen.smaller]-[/] size"
        foot.update(f"{_FOOT} · {page} · {size}")

    def action_page(self) -> None:
        """The page alone, or what was there before."""
        if self.has_class("-pictured"):
            self.toggle_class("-page")
            self.query_one("#source-page" if self.has_class("-page") else "#source").focus()

    def action_larger(self) -> None:
        """The page larger."""
        self._zoom(1)

    def action_smaller(self) -> None:
        """The page smaller."""
        self._zoom(-1)

    def _zoom(self, step: int) -> None:
        if self.has_class("-pictured"):
            from octavo.app.tui.widgets.page_view import PageView

            self.query_one(PageView).zoom(step)

    def action_copy(self) -> None:
        """Copy the marked text."""
        if self.passage is not None:
            self.app.copy(self.passage.marked, "the source")  # type: ignore[attr-defined]
