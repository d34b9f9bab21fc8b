"""The open conversation's pages: where each layer of each is, how it was read, and what stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from octavo.app.tui.heat import SECTION, counts_by_tier
from octavo.app.tui.owners import Owner, find_owners
from octavo.app.tui.text import count, one_line, visible
from octavo.app.tui.widgets.heat_map import HeatMap
from octavo.app.tui.widgets.inspection_tab import InspectionTab, Steady

if TYPE_CHECKING:
    from octavo.app.assistant.watch import PagesShown
    from octavo.engine.inspection import PageDetail, PageMap

_LIVE_S = 0.5
_PAUSE_S = 0.05  # without a move of the cursor before its page is asked for
_TEXT = 400  # characters of a page's text; 32 tokens have fewer
_PLACES = ("nowhere", "on disk", "in RAM", "on the device")
_KEYS, _FEW_KEYS = "m shows other figures · +/- zoom · arrows move", "m more · +/- zoom"
_LEGENDS = {
    "tier": (
        ("█", "$primary", "device"), ("▒", "$success", "RAM"), ("░", "$accent", "disk"), ("·", "", "nowhere"),
        ("▚", "$primary", "being filled"),
    ),
    "last use": (("█", "$primary", "just now"), ("▁", "", "long ago"), (" ", "", "never")),
    "selected": (("█", "$primary", "most often selected"), ("▁", "", "seldom"), (" ", "", "never")),
    "worth": (("█", "$primary", "evicted last"), ("▁", "", "evicted first")),
    "newest": (("█", "$primary", "chosen for the newest token"), (" ", "", "not chosen")),
    "precision": (("█", "$primary", "16 bits or more"), ("▄", "", "8 bits"), ("▃", "", "fewer")),
}  # fmt: skip


class PagesTab(InspectionTab):
    """Asks the engine's thread twice a second while it is shown.

    Nothing here changes its height while somebody looks: a layout costs more than all that is painted.
    """

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._is_asking = False
        self._pause: Timer | None = None
        self._counts = ""
        self._owners: dict[str, Owner] = {}
        self._shown: tuple[PageMap, PageDetail, str] | None = None

    def compose(self) -> ComposeResult:
        yield Steady("", id="pages-facts", markup=False)
        with Container(id="pages-body"):
            yield HeatMap(id="heat")
            with VerticalScroll(id="pages-detail"):
                yield Static("", id="page-text", markup=False)
        yield Steady("", id="pages-legend", markup=False)

    def on_mount(self) -> None:
        self.set_interval(_LIVE_S, self._ask)

    @property
    def heat(self) -> HeatMap:
        return self.query_one(HeatMap)

    def activate(self) -> None:
        self.heat.focus()
        self.look()
        self._legend()

    def look(self) -> None:
        self._is_asking = False
        self._ask()

    def _ask(self) -> None:
        from octavo.app.assistant.watch import Look

        conversation_id = self.chat.conversation_id
        if not self.is_shown or self._is_asking:
            return
        if conversation_id is None:
            self._tell("No conversation is open; its pages would be shown here.")
            return
        self._is_asking = True
        self.backend.engine.watch.look(Look(conversation_id, self.heat.cursor_page))

    def pages_shown(self, event: PagesShown) -> None:
        if event.look.message_id or event.look.conversation_id != self.chat.conversation_id:
            return
        self._is_asking = False
        self.heat.show(event.map)
        if event.map is None:
            self._tell(event.text or "No model is loaded, or this conversation has no pages yet.")
            return
        self._counts = _counts(event.map)
        self._facts()
        if event.detail is not None:
            self._shown = event.map, event.detail, event.text
            self._show_page()
            unknown, backend = set(event.detail.owners) - self._owners.keys(), self.backend
            if unknown:
                self.in_thread(lambda: find_owners(backend, unknown), self._named, group="owners")

    def _named(self, owners: dict[str, Owner]) -> None:
        self._owners |= owners
        self._show_page()

    def _show_page(self) -> None:
        if self._shown is None:
            return
        pages, detail, said = self._shown
        known = [(owner, self._owners[owner]) for owner in detail.owners if owner in self._owners]
        names = ["this conversation" if owner == self.chat.conversation_id else each.named for owner, each in known]
        shown, text = self.query_one("#page-text", Static), page_text(pages, detail, names, said)
        if shown.content != text:
            shown.update(text)

    def _tell(self, facts: Content | str) -> None:
        self.query_one("#pages-facts", Steady).show(facts)

    @on(HeatMap.CursorMoved)
    def _moved(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._is_asking = False
        self._pause = self.set_timer(_PAUSE_S, self._ask)

    @on(HeatMap.Changed)
    def _legend(self) -> None:
        pieces = [
            Content.assemble((shape, style), f" {name}") if style else Content(f"{shape} {name}")
            for shape, style, name in _LEGENDS[self.heat.metric]
        ]
        keys = Content.styled(_KEYS if self.screen.has_class("-wide") else _FEW_KEYS, "dim")
        self.query_one("#pages-legend", Steady).show(Content("  ").join([*pieces, keys]))
        self._facts()

    def _facts(self) -> None:
        pages, per_cell = self.heat.pages, self.heat.view.per_cell
        if pages is None:
            return
        scale = {1: "a page", SECTION: "a section (16 pages)"}.get(per_cell, f"{per_cell:,} pages")
        shown = f"{self.heat.metric} of {pages.num_layers} layers down, pages across; a cell is {scale}"
        held = f"{pages.codec} (K {pages.key_bits}, V {pages.value_bits} bits): {self._counts}"
        first = f"{count(pages.num_tokens, 'token')}, {count(pages.num_complete, 'page')} of {pages.page_size}"
        lines = [f"{first} in {held}{_rest(pages)}"] if self.screen.has_class("-wide") else [first + _rest(pages), held]
        self._tell(Content.assemble(("\n".join(lines), "bold"), "\n", shown))


def _counts(pages: PageMap) -> str:
    whole, partly, below, nowhere = counts_by_tier(pages)
    parts = [f"{whole:,} on the device"]
    parts += [f"{partly:,} partly"] if partly else []
    parts += [f"{below:,} below"] if below else []
    return ", ".join([*parts, f"{nowhere:,} nowhere"] if nowhere else parts)


def _rest(pages: PageMap) -> str:
    """The tokens that are on no complete page."""
    rest, tail = "", count(pages.tail_tokens, "token")
    if pages.tail_tokens and pages.is_running:
        rest = f"; {tail} on one being filled ({pages.tail_bits} bits)"
    elif pages.tail_tokens:
        rest = f"; the last {tail} filled none"
    # One is always ahead: the token that was just chosen is read with the next step.
    return f"{rest}; {count(pages.num_unread, 'token')} not read yet" if pages.num_unread > 1 else rest


def page_text(pages: PageMap, detail: PageDetail, owners: Sequence[str], text: str) -> Content:
    """All that is known of one page, whose owners have these names, and what stands in it."""
    at, size = detail.index, pages.page_size
    if at >= pages.num_pages:
        return Content("")
    first, last = at * size + 1, at * size + len(detail.token_ids)
    about = _about(pages, detail) if at < pages.num_complete else _about_unfinished(pages)
    lines = [
        Content.styled(f"Page {at + 1:,} of {pages.num_pages:,}, tokens {first:,}-{last:,}", "bold"),
        Content.styled(f"“{one_line(visible(text), _TEXT)}”", "$text-accent"),
        *map(Content, about),
        Content(f"kept for {', '.join(owners) or ('…' if detail.owners else 'nobody this process knows of')}"),
        Content.styled("Token ids", "bold"),
        Content(" ".join(map(str, detail.token_ids))),
    ]
    return Content("\n").join(lines)


def _about_unfinished(pages: PageMap) -> list[str]:
    filled = f"unfinished: {pages.tail_tokens} of its {pages.page_size} tokens"
    if pages.is_running:
        return [f"{filled} so far, kept on the device as they were computed ({pages.tail_bits} bits)"]
    return [f"{filled}; not kept, they are read again with the next question"]


def _about(pages: PageMap, detail: PageDetail) -> list[str]:
    at = detail.index
    tiers = pages.tier[:, at]
    places = ", ".join(
        f"{int((tiers == code).sum())} layers {_PLACES[code]}" for code in (3, 2, 1, 0) if (tiers == code).any()
    )
    ages, selected = pages.age[:, at], pages.selected[:, at]
    read = "never read"
    if (ages >= 0).any():
        youngest = int(ages[ages >= 0].min())
        read = f"last read {count(youngest, 'page read')} ago" if youngest else "read last of all"
    times = "never selected: so far every page was read"
    if pages.selected.any():
        times = f"selected {int(selected.sum()):,} times by its layers, at most {int(selected.max()):,} by one"
    return [
        f"{places}; {read}",
        f"{times}; worth {float(pages.worth[:, at].mean()):.3f} (the least is evicted first)",
        f"its place, layer by layer: {''.join('·░▒█'[code] for code in tiers)}",
        f"hash {detail.identity[:16]}… {detail.origin and f'written by {detail.origin}'}".rstrip(),
    ]
