"""What the page store on disk keeps, and for whom; forgetting one gives its bytes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.models.text import human_size
from octavo.app.tui.plots import parts_bar
from octavo.app.tui.screens.dialogs import Confirm
from octavo.app.tui.text import count, one_line
from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.app.tui.backend import Backend
    from octavo.storage.pages import OwnerUse, StoreStats

_DOCUMENT = "document:"
_BAR = 16


@dataclass(frozen=True, slots=True)
class Kept:
    """An owner's pages under a name that a person knows; the newest first version of a document is its id."""

    use: OwnerUse
    name: str
    kind: str


class StoreTab(InspectionTab):
    """Delete or f forgets the pages of the highlighted row: they are read again when they are needed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("delete,f", "forget", "Forget", show=False)]

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._kept: dict[str, Kept] = {}
        self._on_disk = 0
        self._freed = ""

    def compose(self) -> ComposeResult:
        yield Static("", id="store-facts", markup=False)
        yield OptionList(id="store-owners", markup=False, compact=True)
        yield Static("f forgets the pages of the row; the conversation stays, and is read again", classes="tab-foot")

    def activate(self) -> None:
        self.query_one("#store-owners").focus()
        self.look()

    def look(self) -> None:
        """Read the store again, in a thread."""
        backend = self.backend
        self.in_thread(lambda: read_store(backend), self._show, self._failed, group="store")

    def _failed(self, error: Exception) -> None:
        self.query_one("#store-facts", Static).update(f"The page store cannot be read: {error}")

    def _show(self, found: tuple[StoreStats, list[Kept]] | None) -> None:
        facts, options = self.query_one("#store-facts", Static), self.query_one("#store-owners", OptionList)
        if found is None:
            facts.update("Nothing is kept on disk: there is no page store yet, or disk is off.")
            options.clear_options()
            return
        stats, kept = found
        if self._on_disk and stats.bytes_on_disk < self._on_disk:
            self._freed = f"; {human_size(self._on_disk - stats.bytes_on_disk)} came back"
        self._on_disk = stats.bytes_on_disk
        facts.update(_facts(stats, self._freed))
        marked = options.highlighted
        self._kept = {item.use.owner: item for item in kept}
        most = max((item.use.num_bytes for item in kept), default=0)
        options.clear_options()
        options.add_options([Option(_row(item, most, self.chat.conversation_id), id=item.use.owner) for item in kept])
        if kept:
            options.highlighted = min(marked or 0, len(kept) - 1)

    def action_forget(self) -> None:
        options = self.query_one("#store-owners", OptionList)
        if options.highlighted is None or not self._kept:
            return
        kept = self._kept[str(options.get_option_at_index(options.highlighted).id)]
        detail = f"{count(kept.use.num_pages, 'page')} of “{kept.name}”, {human_size(kept.use.num_bytes)} on disk; "
        detail += f"{count(kept.use.num_shared, 'page')} of them that others share stay. The text itself stays."

        def confirmed(yes: bool | None) -> None:
            if yes:
                self.backend.engine.forget(kept.use.owner)
                self.set_timer(0.5, self.look)
                self.set_timer(2.0, self.look)

        self.app.push_screen(Confirm("Forget these pages?", detail, yes="Forget"), confirmed)


def read_store(backend: Backend) -> tuple[StoreStats, list[Kept]] | None:
    """Statistics and owners; None without a store. Raises StorageError."""
    from octavo.storage.errors import StorageError
    from octavo.storage.pages import PageStoreMissingError, open_store

    if not backend.paths.pages_dir.is_dir():
        return None
    try:
        store = open_store(backend.paths.pages_dir, None, write=False)
    except PageStoreMissingError:
        return None
    with store:
        stats, uses = store.stats(), store.owners()
    documents = _document_names()
    kept = []
    for use in uses:
        if use.owner.startswith(_DOCUMENT):
            key = use.owner.removeprefix(_DOCUMENT)
            kept.append(Kept(use, documents.get(key, key[:12]), "document"))
            continue
        try:
            kept.append(Kept(use, backend.conversations.get(use.owner).title or "New conversation", "conversation"))
        except StorageError:
            kept.append(Kept(use, use.owner[:12] or "asked in passing", "other"))
    return stats, kept


def _document_names() -> dict[str, str]:
    from octavo.app.documents.library import open_documents
    from octavo.storage.errors import StorageError

    try:
        with open_documents(write=False) as documents:
            return {document.id: document.name for document in documents.list()}
    except StorageError:
        return {}


def _facts(stats: StoreStats, freed: str) -> Content:
    cap = f" of at most {human_size(stats.cap)}" if stats.cap else ""
    first = f"{human_size(stats.bytes_on_disk)} on disk{cap}, {count(stats.num_pages, 'page')}{freed}"
    second = (
        f"{human_size(stats.bytes_written_lifetime)} written in the store's life, index {human_size(stats.index_bytes)}"
    )
    return Content("\n").join([Content.styled(first, "bold"), Content(second), *map(Content, stats.problems)])


def _row(kept: Kept, most: int, open_id: str | None) -> Content:
    use = kept.use
    when = datetime.fromtimestamp(use.last_use / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    shared = f", {use.num_shared} shared" if use.num_shared else ""
    mark = "▎" if use.owner == open_id else " "
    return Content.assemble(
        mark, parts_bar([("▒", "$success", use.num_bytes)], most, _BAR), f" {human_size(use.num_bytes):>8}  ",
        (one_line(kept.name, 50), "bold"), f"  {kept.kind}, {count(use.num_pages, 'page')}{shared}, used {when}",
    )  # fmt: skip
