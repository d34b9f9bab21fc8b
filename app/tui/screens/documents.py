"""The documents there are: opened and closed in the conversation, removed, and how they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.text import count, one_line

if TYPE_CHECKING:
    from octavo.app.tui.screens.documenting import Documenting
    from octavo.storage.attachments import AskMode, Attached
    from octavo.storage.documents import StoredDocument

_MOST = 500  # rows; more are counted
_MODES: tuple[AskMode, ...] = ("auto", "search", "read")
_SAID = {
    "auto": "answers from the whole text once it is read, and by search until then",
    "search": "always searched",
    "read": "read whole for every question, where that fits",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """A path that is open here, a document of the library, or both."""

    path: str
    document: StoredDocument | None
    is_open: bool


class DocumentsScreen(ModalScreen[None]):
    """`owner` is the main screen, which does what is asked for here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "dismiss", "Close"),
        ("delete,backspace", "remove", "Remove"),
        ("m", "mode", "Mode"),
        ("o", "open", "Open a file"),
        ("r", "reindex", "Read again"),
    ]

    @dataclass
    class Listed(Message):
        """What there is."""

        attached: Attached
        documents: Sequence[StoredDocument]

    def __init__(self, owner: Documenting) -> None:
        super().__init__()
        self._owner = owner
        self._rows: list[_Row] = []
        self._attached: Attached | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static("Documents", classes="dialog-title")
            yield Static("", id="documents-note", markup=False)
            yield OptionList(id="documents-list", markup=False)
            yield Static(
                "Enter opens or closes · [@click=screen.open]o adds a file[/] · [@click=screen.mode]m how to ask[/] · "
                "r reads again · Del removes · [@click=screen.dismiss]Esc[/]",
                classes="dialog-foot",
                id="documents-foot",
            )

    def on_mount(self) -> None:
        self.load()

    def load(self) -> None:
        """Read the list anew."""
        self.run_worker(self._look, thread=True, exclusive=True)

    def _look(self) -> None:
        from octavo.storage.attachments import Attached

        backend = self._owner.backend
        assert backend is not None
        assert backend.shelf is not None
        shelf, conversation_id = backend.shelf, self._owner.conversation_id
        try:
            attached = shelf.attachments.of(conversation_id) if conversation_id else Attached()
            documents = shelf.documents()
            self.post_message(self.Listed(attached, documents.list() if documents is not None else []))
        except Exception as error:
            self._owner.events.push(_failed(error))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self._attached = event.attached
        by_path = {document.path: document for document in event.documents}
        opened = [_Row(path, by_path.get(path), True) for path in event.attached.paths]
        below = tuple(f"{row.path}/" for row in opened if row.document is None)
        others = [
            _Row(document.path, document, False)
            for document in event.documents
            if document.path not in event.attached.paths and not document.path.startswith(below or ("\0",))
        ]
        self._rows = [*opened, *others][:_MOST]
        listing = self.query_one("#documents-list", OptionList)
        highlighted = listing.highlighted or 0
        listing.clear_options()
        listing.add_options([Option(self._shown(row, event.documents)) for row in self._rows])
        listing.highlighted = min(highlighted, len(self._rows) - 1) if self._rows else None
        listing.focus()
        left = len(opened) + len(others) - len(self._rows)
        note = f"This conversation: {_SAID[event.attached.mode]}." if opened else "None is open in this conversation."
        if not self._rows:
            note = "There are no documents yet; o adds a file or a folder."
        if left:
            note += f" {count(left, 'more document')} are not shown; `octavo docs list` has them all."
        self.query_one("#documents-note", Static).update(note)

    def _shown(self, row: _Row, documents: Sequence[StoredDocument]) -> Content:
        mark = "●" if row.is_open else "○"
        document = row.document
        if document is None:
            inside = sum(each.path.startswith(f"{row.path}/") for each in documents)
            facts = f"folder, {count(inside, 'document')}" if inside else "being read, or gone"
        elif document.outcome != "ok":
            facts = f"{document.outcome}: {' '.join(document.facts['notes'][:1])}"
        else:
            pages = f"{count(len(document.pages), 'page')}, " if document.pages else ""
            gone = ", its file is gone" if document.state == "missing" else ""
            facts = f"{document.facts['kind']}, {pages}{document.num_characters:,} characters{gone}"
        name = document.name if document is not None else Path(row.path).name or row.path
        return Content.assemble((f"{mark} {one_line(name)}", "bold"), (f"\n  {one_line(facts, 120)}", "dim"))

    @property
    def _current(self) -> _Row | None:
        place = self.query_one("#documents-list", OptionList).highlighted
        return self._rows[place] if place is not None and place < len(self._rows) else None

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        row = self._rows[event.option_index]
        if row.is_open:
            self._owner.close_document(row.path)
        else:
            self._owner.open_documents([Path(row.path)])
        self.set_timer(0.3, self.load)

    def action_mode(self) -> None:
        """The next way of asking."""
        if self._attached is not None and self._attached.paths:
            mode = _MODES[(_MODES.index(self._attached.mode) + 1) % len(_MODES)]
            self._owner.set_mode(mode)
            self.set_timer(0.3, self.load)

    async def action_open(self) -> None:
        """Add a file or a folder."""
        self.dismiss()
        await self._owner.command_open("")

    def action_reindex(self) -> None:
        """Read the file again."""
        row, backend = self._current, self._owner.backend
        if row is not None and backend is not None and backend.index is not None and Path(row.path).exists():
            backend.index.add([Path(row.path)], self._owner.conversation_id, again=True)
            self.dismiss()

    def action_remove(self) -> None:
        """Take a document out of the library, after asking."""
        from octavo.app.tui.screens.dialogs import Confirm

        row, backend = self._current, self._owner.backend
        if row is None or row.document is None or backend is None or backend.index is None:
            return
        index, document = backend.index, row.document

        def answered(yes: bool | None) -> None:
            if yes:
                if row.is_open:
                    self._owner.close_document(row.path)
                index.remove([document])
                self.set_timer(0.5, self.load)

        detail = "Its text, vectors and KV pages are deleted; the file itself stays. This cannot be undone."
        self.app.push_screen(Confirm(f"Remove {one_line(document.name)}?", detail, yes="Remove"), answered)


def _failed(error: Exception) -> object:
    from octavo.app.documents.index_events import IndexFailed

    return IndexFailed(str(error))
