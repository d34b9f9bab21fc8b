"""What is remembered about the person: search, evidence, conflicts with both sides, and the log of corrections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.screens.dialogs import Confirm
from octavo.app.tui.text import one_line
from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper

_LINES = 40


@dataclass(frozen=True, slots=True)
class Item:
    """A row: its kind ("memory", "conflict" or "line" of the log), its key, what the list and what the detail say."""

    kind: str
    key: str
    text: str
    detail: tuple[str, ...]
    is_open: bool = False


class MemoryTab(InspectionTab):
    """Words in the field search; f forgets a memory, o, n and b decide a conflict, u undoes a line of the log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f,delete", "forget", show=False),
        Binding("u", "undo", show=False),
        Binding("o", "decide('old')", show=False),
        Binding("n", "decide('new')", show=False),
        Binding("b", "decide('both')", show=False),
        Binding("slash", "search", show=False),
    ]

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._items: dict[str, Item] = {}

    def compose(self) -> ComposeResult:
        yield Input(placeholder="Search memories (/)", id="memory-search", compact=True)
        yield OptionList(id="memory-list", markup=False, compact=True)
        with VerticalScroll(id="memory-detail", can_focus=False):
            yield Static("", id="memory-text", markup=False)
        yield Static(
            "f forgets · o, n, b keep the old, the new, both · u undoes a line, F7 the last",
            classes="tab-foot",
            markup=False,
        )

    def activate(self) -> None:
        self.query_one("#memory-list").focus()
        self.look()

    @property
    def keeper(self) -> Keeper | None:
        return self.backend.memory.keeper if self.backend.memory is not None else None

    def look(self) -> None:
        """Read what is remembered again, in a thread."""
        keeper, words = self.keeper, self.query_one("#memory-search", Input).value
        if keeper is None:
            self.query_one("#memory-text", Static).update("There is no memory in this process.")
            return
        self.in_thread(lambda: read_items(keeper, words), self._show, group="memory-tab")

    @on(Input.Changed, "#memory-search")
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        self.look()

    @on(Input.Submitted, "#memory-search")
    def _to_list(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one("#memory-list").focus()

    def _show(self, items: list[Item]) -> None:
        options = self.query_one("#memory-list", OptionList)
        marked = options.highlighted
        self._items = {f"{item.kind}:{item.key}": item for item in items}
        options.clear_options()
        heading = ""
        for key, item in self._items.items():
            if item.kind != heading:
                heading = item.kind
                options.add_option(Option(_HEADINGS[heading], disabled=True))
            mark = ("! ", "bold $text-warning") if item.is_open else ("  ", "")
            options.add_option(Option(Content.assemble(mark, one_line(item.text, 150)), id=key))
        if items:
            options.highlighted = min(marked, options.option_count - 1) if marked else 1
        else:
            self.query_one("#memory-text", Static).update("Nothing is remembered yet.")

    @on(OptionList.OptionHighlighted, "#memory-list")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        item = self._items.get(event.option_id or "")
        if item is not None:
            self.query_one("#memory-text", Static).update("\n".join(item.detail))

    @property
    def _item(self) -> Item | None:
        options = self.query_one("#memory-list", OptionList)
        if options.highlighted is None:
            return None
        return self._items.get(str(options.get_option_at_index(options.highlighted).id))

    def action_search(self) -> None:
        self.query_one("#memory-search").focus()

    def action_forget(self) -> None:
        item, keeper = self._item, self.keeper
        if item is None or item.kind != "memory" or keeper is None:
            return

        def confirmed(yes: bool | None) -> None:
            if yes:
                self.in_thread(lambda: keeper.forget(item.key), lambda _: self.look())

        self.app.push_screen(Confirm("Forget this memory for good?", item.text, yes="Forget"), confirmed)

    def action_undo(self) -> None:
        item, keeper = self._item, self.keeper
        if item is not None and item.kind == "line" and keeper is not None:
            self.in_thread(lambda: keeper.undo(int(item.key)), lambda _: self.look())

    def action_decide(self, keep: str) -> None:
        item, keeper = self._item, self.keeper
        if item is None or item.kind != "conflict" or not item.is_open or keeper is None:
            return
        from octavo.app.memory.deciding import decide

        self.in_thread(lambda: decide(keeper, item.key, keep), lambda _: self.look())


_HEADINGS = {"memory": "Remembered", "conflict": "Conflicts", "line": "Log of corrections"}


def read_items(keeper: Keeper, words: str) -> list[Item]:
    """Open conflicts first, then memories, decided conflicts and the log; with `words` only memories."""
    from octavo.app.tui.memory_rows import memory_rows

    memories = [
        Item(
            "memory", row.memory_id, row.text, (row.text, *row.about, *_evidence(keeper, row.memory_id)), row.is_safety
        )
        for row in memory_rows(keeper, words)
    ]
    if words.strip():
        return memories
    conflicts = [_conflict(keeper, conflict) for conflict in keeper.memories.conflicts()]
    waiting = [item for item in conflicts if item.is_open]
    decided = [item for item in conflicts if not item.is_open]
    lines = [
        Item("line", str(line.seq), f"{line.seq}. {line.at[:16]} {line.kind}: {line.reason}", _line(line))
        for line in keeper.log.list(_LINES)
    ]
    return [*waiting, *memories, *decided, *lines]


def _evidence(keeper: Keeper, memory_id: str) -> list[str]:
    return [f"said {item.said[:10]}: “{one_line(item.quote)}”" for item in keeper.memories.evidence(memory_id)]


def _conflict(keeper: Keeper, conflict: object) -> Item:
    from octavo.storage.memory_records import Conflict

    assert isinstance(conflict, Conflict)
    old, new = keeper.memories.get(conflict.old_id), keeper.memories.get(conflict.new_id)
    detail = (
        f"old  ({old.said[:10]}): {old.text}",
        f"new  ({new.said[:10]}): {new.text}",
        f"{conflict.verdict}, checked by {conflict.checked_by}: {conflict.reason}",
        f"state: {conflict.state}",
    )
    is_open = conflict.state == "open"
    return Item("conflict", conflict.id, f"{one_line(old.text, 60)} ↔ {one_line(new.text, 60)}", detail, is_open)


def _line(line: object) -> tuple[str, ...]:
    from octavo.storage.memory_records import Correction

    assert isinstance(line, Correction)
    undone = (
        f"undone {line.undone[:16]}" if line.undone else "u undoes it" if line.kind not in ("undo", "forget") else ""
    )
    evidence = f"evidence: “{one_line(line.evidence)}”" if line.evidence else ""
    checked = f"checked by {line.checked_by}" if line.checked_by else ""
    return tuple(text for text in (f"{line.at[:19]} {line.kind}", line.reason, evidence, checked, undone) if text)
