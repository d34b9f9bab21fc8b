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
from octavo.app.tui.owners import Owner, find_owners
from octavo.app.tui.plots import parts_bar
from octavo.app.tui.screens.dialogs import Confirm
from octavo.app.tui.text import count
from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.app.tui.backend import Backend
    from octavo.storage.pages import OwnerUse, StoreStats

_BAR = 6
_HEAD = f" {'':<{_BAR}} {'size':>8} {'pages':>7} {'shared':>7}  {'pinned':<6}  {'last used':<12}  kept for"


@dataclass(frozen=True, slots=True)
class Kept:
    """An owner's pages under a name that a person knows."""

    use: OwnerUse
    owner: Owner


class StoreTab(InspectionTab):
    """Of the highlighted row, f or Delete forgets the pages, which are read again when they are needed, and p pins."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("delete,f", "forget", "Forget", show=False),
        Binding("p", "pin", "Pin", show=False),
    ]

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._kept: dict[str, Kept] = {}
        self._in_pages = 0
        self._freed = ""

    def compose(self) -> ComposeResult:
        yield Static("", id="store-facts", markup=False)
        yield Static(_HEAD, id="store-head", markup=False)
        yield OptionList(id="store-owners", markup=False, compact=True)
        yield Static(
            "f forgets the pages of a row, its text stays · p pins them, so that they stay",
            classes="tab-foot",
            markup=False,
        )

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
        if stats.bytes_in_pages < self._in_pages:
            self._freed = f"; {human_size(self._in_pages - stats.bytes_in_pages)} came back"
        self._in_pages = stats.bytes_in_pages
        facts.update(_facts(stats, self._freed))
        marked = options.highlighted
        self._kept = {item.use.owner: item for item in kept}
        most = max((item.use.num_bytes for item in kept), default=0)
        options.clear_options()
        options.add_options([Option(_row(item, most, self.chat.conversation_id), id=item.use.owner) for item in kept])
        if kept:
            options.highlighted = min(marked or 0, len(kept) - 1)

    @property
    def _marked(self) -> Kept | None:
        """The highlighted row."""
        options = self.query_one("#store-owners", OptionList)
        if options.highlighted is None:
            return None
        return self._kept.get(str(options.get_option_at_index(options.highlighted).id))

    def action_forget(self) -> None:
        if (kept := self._marked) is None:
            return
        use = kept.use
        detail = f"{count(use.num_pages, 'page')} of {kept.owner.named}, {human_size(use.num_bytes)} on disk"
        detail += f"; {count(use.num_shared, 'page')} of them that others share stay" if use.num_shared else ""
        detail += ". The text itself stays, and is read again when it is needed."

        def confirmed(yes: bool | None) -> None:
            if yes:
                self.backend.engine.forget(use.owner)

        self.app.push_screen(Confirm("Forget these pages?", detail, yes="Forget"), confirmed)

    def action_pin(self) -> None:
        if (kept := self._marked) is not None:
            backend, use = self.backend, kept.use
            self.in_thread(lambda: _pin(backend, use.owner, not use.pinned), lambda _: self.look())


def _pin(backend: Backend, owner: str, pinned: bool) -> None:
    """Through the store of the model that is loaded, which has the right to write. Raises StorageError."""
    from octavo.storage.pages import open_store

    if (store := backend.engine.watch.store) is not None:
        store.pin(owner, pinned)
        return
    with open_store(backend.paths.pages_dir, None) as store:
        store.pin(owner, pinned)


def read_store(backend: Backend) -> tuple[StoreStats, list[Kept]] | None:
    """Statistics and owners; None without a store. Raises StorageError."""
    from octavo.storage.pages import PageStoreMissingError, open_store

    if not backend.paths.pages_dir.is_dir():
        return None
    try:
        store = open_store(backend.paths.pages_dir, None, write=False)
    except PageStoreMissingError:
        return None
    with store:
        stats, uses = store.stats(), store.owners()
    owners = find_owners(backend, [use.owner for use in uses])
    return stats, [Kept(use, owners[use.owner]) for use in uses]


def _facts(stats: StoreStats, freed: str) -> Content:
    cap = f" of at most {human_size(stats.cap)}" if stats.cap else ""
    first = f"{count(stats.num_pages, 'page')}, {human_size(stats.bytes_in_pages)}{freed}"
    second = (
        f"{human_size(stats.bytes_on_disk)}{cap} on disk (files grow in steps), "
        f"{human_size(stats.bytes_written_lifetime)} written"
    )
    return Content("\n").join([Content.styled(first, "bold"), Content(second), *map(Content, stats.problems)])


def _row(kept: Kept, most: int, open_id: str | None) -> Content:
    use, now = kept.use, datetime.now(UTC).astimezone()
    when = datetime.fromtimestamp(use.last_use / 1000, UTC).astimezone()
    used = when.strftime("%d %b %H:%M" if when.year == now.year else "%d %b %Y")
    figures = f" {human_size(use.num_bytes):>8} {use.num_pages:>7,} {use.num_shared:>7,}  "
    return Content.assemble(
        "▎" if use.owner == open_id else " ",
        parts_bar([("▒", "$success", use.num_bytes)], most, _BAR),
        figures,
        (f"{'pinned' if use.pinned else '–':<6}", "bold" if use.pinned else "dim"),
        f"  {used:<12}  ",
        (kept.owner.name, "bold"),
        f", {kept.owner.kind}" if kept.owner.kind != "other" else "",
    )
