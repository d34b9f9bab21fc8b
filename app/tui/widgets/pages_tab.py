"""The open conversation's pages: where each layer of each is, how it was read, and what stands in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from octavo.app.tui.heat import SECTION, counts_by_tier
from octavo.app.tui.text import count, visible
from octavo.app.tui.widgets.heat_map import HeatMap
from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.app.assistant.watch import PagesShown
    from octavo.engine.inspection import PageDetail, PageMap

_LIVE_S = 0.5
_PAUSE_S = 0.05  # without a move of the cursor before its page is asked for
_PLACES = ("nowhere", "disk", "RAM", "device")
_LEGENDS = {
    "tier": (("█", "$primary", "device"), ("▒", "$success", "RAM"), ("░", "$accent", "disk"), ("·", "", "nowhere")),
    "last use": (("█", "$primary", "just now"), ("▁", "", "long ago"), (" ", "", "never")),
    "selected": (("█", "$primary", "most often selected"), ("▁", "", "seldom"), (" ", "", "never")),
    "worth": (("█", "$primary", "evicted last"), ("▁", "", "evicted first")),
    "newest": (("█", "$primary", "chosen for the newest token"), (" ", "", "not chosen")),
    "precision": (("█", "$primary", "16 bits or more"), ("▄", "", "8 bits"), ("▃", "", "fewer")),
}


class PagesTab(InspectionTab):
    """Asks the engine's thread twice a second while it is shown."""

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._is_asking = False
        self._pause: Timer | None = None
        self._shown: tuple[PageDetail, str] | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="pages-facts", markup=False)
        with Container(id="pages-body"):
            yield HeatMap(id="heat")
            with VerticalScroll(id="pages-detail", can_focus=False):
                yield Static("", id="page-text", markup=False)
        yield Static("", id="pages-legend", markup=False)

    def on_mount(self) -> None:
        self.set_interval(_LIVE_S, self._ask)

    @property
    def heat(self) -> HeatMap:
        return self.query_one(HeatMap)

    def activate(self) -> None:
        self.heat.focus()
        self._is_asking = False
        self._ask()
        self._legend()

    def _ask(self) -> None:
        from octavo.app.assistant.watch import Look

        conversation_id = self.chat.conversation_id
        if not self.is_shown or self._is_asking:
            return
        if conversation_id is None:
            self.query_one("#pages-facts", Static).update("No conversation is open; its pages would be shown here.")
            return
        self._is_asking = True
        self.backend.engine.watch.look(Look(conversation_id, self.heat.cursor_page))

    def pages_shown(self, event: PagesShown) -> None:
        if event.look.message_id or event.look.conversation_id != self.chat.conversation_id:
            return
        self._is_asking = False
        self.heat.show(event.map)
        facts = _facts(event.map, self.heat) if event.map is not None else _nothing(event)
        self.query_one("#pages-facts", Static).update(facts)
        if event.detail is not None and event.map is not None:
            self._shown = event.detail, event.text
            self.query_one("#page-text", Static).update(_detail(event.map, event.detail, event.text))

    @on(HeatMap.CursorMoved)
    def _moved(self, event: HeatMap.CursorMoved) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._is_asking = False
        self._pause = self.set_timer(_PAUSE_S, self._ask)
        if self.heat.pages is not None:
            self.query_one("#pages-facts", Static).update(_facts(self.heat.pages, self.heat))

    @on(HeatMap.Changed)
    def _legend(self) -> None:
        pieces = [
            Content.assemble((shape, style), f" {name}") if style else Content(f"{shape} {name}")
            for shape, style, name in _LEGENDS[self.heat.metric]
        ]
        keys = Content.styled("m shows other figures · +/- zoom · arrows move", "dim")
        self.query_one("#pages-legend", Static).update(Content("  ").join([*pieces, keys]))
        if self.heat.pages is not None:
            self.query_one("#pages-facts", Static).update(_facts(self.heat.pages, self.heat))


def _facts(pages: PageMap, heat: HeatMap) -> Content:
    whole, partly, below, nowhere = counts_by_tier(pages)
    parts = [f"{whole:,} on the device"]
    parts += [f"{partly:,} partly"] if partly else []
    parts += [f"{below:,} below"] if below else []
    parts += [f"{nowhere:,} nowhere"] if nowhere else []
    per_cell = heat.view.per_cell
    scale = {1: "a page", SECTION: "a section (16 pages)"}.get(per_cell, f"{per_cell:,} pages")
    tail = pages.num_tokens - pages.num_pages * pages.page_size
    unfinished = f", {count(tail, 'token')} more as computed ({pages.tail_bits} bits)" if pages.is_running else ""
    first = (
        f"{count(pages.num_tokens, 'token')} · {count(pages.num_pages, 'page')} of {pages.page_size} in {pages.codec} "
        f"(K {pages.key_bits}, V {pages.value_bits} bits){unfinished}: {', '.join(parts)}"
    )
    second = f"{heat.metric} of {pages.num_layers} layers down, pages across, a cell is {scale}"
    return Content.assemble((first, "bold"), "\n", second)


def _nothing(event: PagesShown) -> str:
    return event.text or "No model is loaded, or this conversation has no pages yet."


def _detail(pages: PageMap, detail: PageDetail, text: str) -> Content:
    at, size = detail.index, pages.page_size
    if at >= pages.num_pages:
        return Content("")
    tiers = pages.tier[:, at]
    places = ", ".join(
        f"{int((tiers == code).sum())} layers {_PLACES[code]}" for code in (3, 2, 1, 0) if (tiers == code).any()
    )
    ages, selected = pages.age[:, at], pages.selected[:, at]
    read = f"{int(ages[ages >= 0].min()):,} page reads ago" if (ages >= 0).any() else "not read yet"
    lines = [
        Content.styled(f"Page {at:,}: tokens {at * size:,} to {(at + 1) * size - 1:,}", "bold"),
        Content(f"{places}; last read {read}"),
        Content(
            f"selected {int(selected.sum()):,} times by its layers, at most {int(selected.max()):,} by one; "
            f"worth {float(pages.worth[:, at].mean()):.3f}"
        ),
        Content(f"by layer, first to last: {''.join('·░▒█'[code] for code in tiers)}"),
        Content(f"hash {detail.identity[:16]}… {detail.origin and f'written by {detail.origin}'}".rstrip()),
        Content(f"owners: {', '.join(owner[:12] for owner in detail.owners) or 'known to the store only'}"),
        Content.styled("Text", "bold"),
        Content(visible(text)),
        Content.styled("Token ids", "bold"),
        Content(" ".join(map(str, detail.token_ids))),
    ]
    return Content("\n").join(lines)
