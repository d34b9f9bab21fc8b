"""A document at an exact place: what a citation points to, or what the attention selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from octavo.app.tui.text import one_line, visible

if TYPE_CHECKING:
    from octavo.app.documents.shelf import Shelf

_AROUND = 3_000  # characters before and after


@dataclass(frozen=True, slots=True)
class Passage:
    """text[start:end] of a document with what stands around it."""

    heading: str
    before: str
    text: str
    after: str


def passage(shelf: Shelf, document_id: str, start: int, end: int) -> Passage:
    """The place in the document as it is now. Raises StorageError if the document is gone."""
    from octavo.storage.errors import StorageError

    documents = shelf.documents()
    if documents is None:
        raise StorageError("The document is not in the library any more.")
    document = documents.resolve(document_id)
    first, last = max(start - _AROUND, 0), end + _AROUND
    chunks = documents.chunks_between(document, first, last)
    text, base = "".join(chunk.text for chunk in chunks), chunks[0].start if chunks else 0
    first, last = max(first, base), min(last, base + len(text))
    here = next((chunk for chunk in chunks if chunk.start <= start < chunk.stop), None)
    page = sum(each <= start for each in document.pages) if document.pages else None
    parts = [document.name, f"page {page} of {len(document.pages)}" if page else ""]
    parts += [" › ".join(here.headings) if here is not None else "", f"characters {start:,}-{end:,}"]
    return Passage(
        " · ".join(part for part in parts if part),
        text[first - base : start - base],
        text[start - base : end - base],
        text[end - base : last - base],
    )


class SourceScreen(ModalScreen[None]):
    """Shows text[start:end] of a document marked, in the middle of what stands around it."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "dismiss", "Close"), ("c", "copy", "Copy")]

    @dataclass
    class Found(Message):
        """The place, or the sentence that says why there is none."""

        passage: Passage | str

    def __init__(self, shelf: Shelf, document_id: str, start: int, end: int, title: str = "") -> None:
        super().__init__()
        self._shelf, self._place, self._title = shelf, (document_id, start, end), title
        self.passage: Passage | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield Static(self._title or "Source", classes="dialog-title", id="source-title", markup=False)
            with VerticalScroll(id="source"):
                yield Static("Opening…", id="source-before", markup=False)
                yield Static("", id="source-text", markup=False)
                yield Static("", id="source-after", markup=False)
            yield Static(
                "[@click=screen.dismiss]Esc closes[/] · [@click=screen.copy]c copies[/]", classes="dialog-foot"
            )

    def on_mount(self) -> None:
        self.query_one("#source").focus()
        self.run_worker(self._look, thread=True)

    def _look(self) -> None:
        try:
            found: Passage | str = passage(self._shelf, *self._place)
        except Exception as error:
            found = str(error)
        self.post_message(self.Found(found))

    def on_source_screen_found(self, event: Found) -> None:
        """Show it, with the marked place in view."""
        if isinstance(event.passage, str):
            self.query_one("#source-before", Static).update(event.passage)
            return
        found = self.passage = event.passage
        title = f"{self._title}  {found.heading}" if self._title else found.heading
        self.query_one("#source-title", Static).update(one_line(title))
        self.query_one("#source-before", Static).update(visible(found.before).removesuffix("\n"))
        marked = self.query_one("#source-text", Static)
        marked.update(Content(visible(found.text)))
        self.query_one("#source-after", Static).update(visible(found.after).removeprefix("\n"))
        self.call_after_refresh(lambda: self.query_one("#source").scroll_to_center(marked, animate=False))

    def action_copy(self) -> None:
        """Copy the marked text."""
        if self.passage is not None:
            self.app.copy(self.passage.text, "the source")  # type: ignore[attr-defined]
