"""Documents on the main screen: opened, closed and removed, and read in the background."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on

from octavo.app.tui.screens.looking import Looking
from octavo.app.tui.text import count, one_line
from octavo.app.tui.widgets.documents_bar import DocumentsBar
from octavo.app.tui.widgets.prompt_input import PromptInput

if TYPE_CHECKING:
    from octavo.app.documents.background import DocumentReading
    from octavo.app.documents.index import Added
    from octavo.app.documents.index_events import IndexDone, IndexProgress
    from octavo.storage.attachments import AskMode, Attached
    from octavo.storage.conversations import Conversation
    from octavo.storage.documents import StoredDocument

_STAGES = {"finding": "Looking for files", "reading": "Reading files", "embedding": "Embedding"}
_TOLD = 3  # refused files that are named


class Documenting(Looking):
    """What is done with documents."""

    _is_paused = False  # reading in the background, by the user

    @property
    def documents_bar(self) -> DocumentsBar:
        return self.query_one("#documents", DocumentsBar)

    def enter(self, conversation_id: str | None) -> None:
        """This conversation's documents are shown from now on, and read while nothing else is to be done."""
        super().enter(conversation_id)
        self.documents_bar.change(names=(), num_documents=0, reading="", is_read=False)
        self._is_paused = False
        self.prompt.ask_about(())
        self.load_documents()
        if self.backend is not None:
            self.backend.engine.reader.want(conversation_id)

    def load_documents(self) -> None:
        """Find out what is open in this conversation."""
        conversation_id, backend = self.conversation_id, self.backend
        if conversation_id is None or backend is None or backend.shelf is None:
            return
        shelf = backend.shelf

        def show(found: tuple[Attached, list[StoredDocument]]) -> None:
            attached, documents = found
            if conversation_id == self.conversation_id:
                names = tuple(Path(path.removeprefix("-:")).name for path in attached.paths)
                self.documents_bar.change(names=names, num_documents=len(documents), mode=attached.mode)
                self.prompt.ask_about(names)

        self.in_thread(lambda: shelf.open_in(conversation_id), show, group="documents")

    # Opening

    def open_documents(self, paths: Sequence[Path], *, password: str | None = None) -> None:
        """Open files and folders in this conversation, which is begun if there is none."""
        backend = self.backend
        if backend is None or backend.shelf is None or backend.index is None:
            self.tell("Octavo is still starting.")
            return
        paths = [path.absolute() for path in paths]
        gone = next((path for path in paths if not path.exists()), None)
        if gone is not None:
            self.tell(f"There is no file {gone}.", severity="error")
            return
        shelf, index, conversation_id = backend.shelf, backend.index, self.conversation_id

        def attach() -> Conversation:
            found = self.store.get(conversation_id) if conversation_id else self.store.create(paths[0].name)
            shelf.attachments.attach(found.id, map(str, paths))
            return found

        def attached(conversation: Conversation) -> None:
            if self.conversation_id == conversation_id and conversation_id is None:
                self.enter(conversation.id)
                self.top.title_text = conversation.title
            self.load_page()
            self.documents_bar.change(work=_STAGES["finding"])
            self.load_documents()
            index.add(paths, conversation.id, password=password)

        self.in_thread(attach, attached)

    @on(PromptInput.PathsDropped)
    def _dropped(self, event: PromptInput.PathsDropped) -> None:
        from octavo.app.tui.screens.dialogs import Confirm

        names = ", ".join(path.name for path in event.paths[:3])
        more = f" and {len(event.paths) - 3} more" if len(event.paths) > 3 else ""

        def chosen(yes: bool | None) -> None:
            if yes:
                self.open_documents(event.paths)
            else:
                self.prompt.insert_paste(event.text)

        question = Confirm(
            f"Open {names}{more}?", "Questions in this conversation are then answered from it. No inserts the path.",
            yes="Open", variant="primary",
        )  # fmt: skip
        self.app.push_screen(question, chosen)

    @on(DocumentsBar.Clicked)
    def _bar_clicked(self) -> None:
        self.action_documents()

    async def command_open(self, argument: str) -> None:
        from octavo.app.tui.dropped import named_paths
        from octavo.app.tui.screens.dialogs import AskText

        if argument:
            self.open_documents(named_paths(argument))
        else:
            self.app.push_screen(
                AskText("Open a file or folder", placeholder="its path"),
                lambda path: self.open_documents(named_paths(path)) if path else None,
            )

    async def command_docs(self, argument: str) -> None:
        self.action_documents()

    def action_documents(self) -> None:
        """The list of documents."""
        from octavo.app.tui.screens.documents import DocumentsScreen

        if self.backend is None or self.backend.shelf is None:
            self.tell("Octavo is still starting.")
        else:
            self.app.push_screen(DocumentsScreen(self), lambda _: self.load_documents())

    # Changing; called by the list

    def close_document(self, path: str) -> None:
        """Close a file or folder in this conversation."""
        self._attached(lambda shelf, conversation_id: shelf.attachments.detach(conversation_id, path))

    def set_mode(self, mode: AskMode) -> None:
        """How the documents of this conversation are asked from now on."""
        self._attached(lambda shelf, conversation_id: shelf.attachments.set_mode(conversation_id, mode))

    def _attached(self, change: Any) -> None:
        backend, conversation_id = self.backend, self.conversation_id
        if backend is None or backend.shelf is None or conversation_id is None:
            return

        def changed(_: object) -> None:
            self.documents_bar.change(reading="", is_read=False)
            self.load_documents()
            backend.engine.reader.want(conversation_id)

        self.in_thread(lambda: change(backend.shelf, conversation_id), changed)

    def stop_adding(self) -> bool:
        """Stop adding files; False if none were being added."""
        index = self.backend.index if self.backend is not None else None
        if index is None or not index.cancel():
            return False
        self.documents_bar.change(work="Stopping…")
        return True

    def stop_reading(self) -> None:
        """Stop reading in the background until the next answer, if that goes on."""
        if self.backend is not None and self.backend.engine.reader.stop():
            self._is_paused = True
            self.documents_bar.change(reading="reading paused until the next answer")

    def _read_on(self) -> None:
        if self._is_paused and self.backend is not None:
            self._is_paused = False
            self.documents_bar.change(reading="")
            self.backend.engine.reader.want(self.conversation_id)

    # What the threads tell

    async def engine_event(self, event: Any) -> None:
        """Take one event; those of documents here."""
        from octavo.app.assistant.chat import AnswerDone
        from octavo.app.documents import background, index_events

        match event:
            case index_events.IndexProgress():
                self._advanced(event)
            case index_events.IndexDone():
                self._added(event)
            case index_events.IndexFailed():
                self.documents_bar.change(work="")
                self.load_documents()
                self.tell(event.error, severity="error")
            case index_events.DocumentsRemoved():
                self.tell(f"Removed {', '.join(event.names[:_TOLD])}.")
                if self.backend is not None:
                    for owner in event.owners:
                        self.backend.engine.forget(owner)
                    self.backend.engine.reader.want(self.conversation_id)
                self.load_documents()
            case background.DocumentReading():
                self._read(event)
            case _:
                await super().engine_event(event)
                if isinstance(event, AnswerDone) and event.message.conversation_id == self.conversation_id:
                    self._read_on()

    def _advanced(self, event: IndexProgress) -> None:
        of = f", {event.done:,} of {event.total:,}" if event.total else ""
        name = f" · {event.name}" if event.name else ""
        self.documents_bar.change(work=f"{_STAGES[event.stage]}{of}{name} · Esc stops")

    def _read(self, event: DocumentReading) -> None:
        if event.conversation_id != self.conversation_id:
            return
        if event.note:
            self.tell(event.note, severity="warning")
        kind = "pages" if event.has_pages else "KV pages"
        read = f"{event.done:,}/{event.total:,} {kind} read" if event.total else ""
        if event.num_documents > 1:
            done = f"{event.num_read} of {event.num_documents} documents read"
            read = f"{done}, {one_line(event.document, 24)} {read}" if read and event.done < event.total else done
        self.documents_bar.change(reading=read, is_read=event.is_done)

    def _added(self, event: IndexDone) -> None:
        self.documents_bar.change(work="")
        self.load_documents()
        if self.backend is not None and event.conversation_id == self.conversation_id:
            self.backend.engine.reader.want(self.conversation_id)
        for note in event.notes:
            self.tell(note, severity="warning")
        new = event.added.get("added", 0) + event.added.get("updated", 0)
        parts = [f"{count(new, 'document')} added"] if new else []
        known = sum(event.added.get(status, 0) for status in ("unchanged", "same", "moved"))
        parts += [f"{known:,} known already"] if known else []
        parts += [f"{event.num_skipped:,} of other kinds passed over"] if event.num_skipped else []
        parts += ["stopped before the end"] if event.cancelled else []
        if parts:
            self.tell(f"{', '.join(parts)}.")
        locked = [result for result in event.refused if result.outcome == "encrypted"]
        for result in [result for result in event.refused if result not in locked][:_TOLD]:
            self.tell(_why(result), severity="warning")
        if len(event.refused) - len(locked) > _TOLD:
            self.tell(f"{len(event.refused) - len(locked):,} files cannot be asked about; /docs lists them.")
        if locked:
            self._ask_password(locked, event.conversation_id)

    def _ask_password(self, locked: Sequence[Added], conversation_id: str | None) -> None:
        """One file after the other; what is left is listed as encrypted."""
        from octavo.app.tui.screens.dialogs import AskText

        first, *rest = locked

        def given(password: str | None) -> None:
            if password and self.backend is not None and self.backend.index is not None:
                self.backend.index.add([Path(first.path)], conversation_id, password=password)
            elif not password:
                self.tell(f"{Path(first.path).name} stays closed: it needs a password.", severity="warning")
            if rest:
                self._ask_password(rest, conversation_id)

        self.app.push_screen(AskText(f"Password of {Path(first.path).name}", is_secret=True), given)


def _why(result: Added) -> str:
    name = Path(result.path).name
    notes = result.document.facts["notes"] if result.document is not None else ["It is gone."]
    return f"{name} cannot be asked about ({result.outcome}). {' '.join(notes[:2])}"
