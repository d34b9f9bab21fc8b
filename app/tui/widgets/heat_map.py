"""The heat map of a conversation's pages: layers down, pages across. It paints lines, whatever there are of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from octavo.app.tui.heat import LEVELS, METRICS, Cells, Metric, View, cells, zooms

if TYPE_CHECKING:
    from octavo.engine.inspection import PageMap

_TIERS = "·░▒█▚"  # absent, disk, RAM, device, unfinished
_PLACES = ("absent", "disk", "ram", "device", "device")
_BARS = " ▁▂▃▄▅▆▇█"
_LABEL = 4  # cells that the layers' numbers take
_CURSOR = "◆"


class HeatMap(Widget, can_focus=True):
    """`pages` are shown by `metric`; the cursor is on a row of layers and a page. Arrows move it, + and - zoom."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(0,-1)", show=False),
        Binding("right,l", "move(0,1)", show=False),
        Binding("up,k", "move(-1,0)", show=False),
        Binding("down,j", "move(1,0)", show=False),
        Binding("pageup", "jump(-1)", show=False),
        Binding("pagedown", "jump(1)", show=False),
        Binding("home", "edge(False)", show=False),
        Binding("end", "edge(True)", show=False),
        Binding("plus,equals_sign,enter", "zoom(-1)", show=False),
        Binding("minus", "zoom(1)", show=False),
        Binding("m", "next_metric", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heat-map--label", "heat-map--device", "heat-map--ram", "heat-map--disk", "heat-map--absent",
        "heat-map--low", "heat-map--high", "heat-map--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    HeatMap { height: 1fr; min-height: 4; }
    HeatMap > .heat-map--label { color: $text-muted; }
    HeatMap > .heat-map--device { color: $primary; }
    HeatMap > .heat-map--ram { color: $success; }
    HeatMap > .heat-map--disk { color: $accent; }
    HeatMap > .heat-map--absent { color: $foreground 30%; }
    HeatMap > .heat-map--low { color: $foreground 35%; }
    HeatMap > .heat-map--high { color: $primary; }
    HeatMap > .heat-map--cursor { color: $background; background: $accent; text-style: bold; }
    """

    metric: reactive[Metric] = reactive("tier", init=False)

    @dataclass
    class CursorMoved(Message):
        """The cursor is on this page, and on these layers."""

        page: int
        layers: range

    class Changed(Message):
        """Another metric or zoom is shown."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._pages: PageMap | None = None
        self._per_cell = 0  # 0: as many as it takes to show everything
        self._first = 0
        self.cursor_page = 0
        self.cursor_row = 0
        self._cells: Cells = np.zeros((0, 0), np.uint8)
        self._computed: tuple[object, ...] = ()
        self._cursor = 0  # the row that it was painted in
        self._palette: tuple[list[Style], Style, Style, Style] | None = None

    @property
    def pages(self) -> PageMap | None:
        return self._pages

    @property
    def view(self) -> View:
        """What of the pages is on the screen now."""
        pages, columns = self._pages, max(self.size.width - _LABEL, 1)
        rows = max(min(self.size.height, pages.num_layers if pages else 1), 1)
        return View(rows, columns, self._per_cell or self._whole(columns), self._first)

    def show(self, pages: PageMap | None) -> None:
        """Show these; cursor and zoom stay where they are as far as they can."""
        self._pages = pages
        if pages is not None:
            self.cursor_page = min(self.cursor_page, max(pages.num_pages - 1, 0))
            self.cursor_row = min(self.cursor_row, max(self.view.rows - 1, 0))
            self._keep_cursor()
        self._compute()

    def watch_metric(self) -> None:
        self._palette = None
        self._compute()
        self.post_message(self.Changed())

    def on_resize(self) -> None:
        self._keep_cursor()
        self._compute()

    def _whole(self, columns: int) -> int:
        """The fewest pages a cell with which all of them are on the screen."""
        num_pages = self._pages.num_pages if self._pages else 1
        return next((step for step in self._zooms() if step * columns >= num_pages), self._zooms()[-1])

    def _zooms(self) -> list[int]:
        return zooms(self._pages.num_pages if self._pages else 1, max(self.size.width - _LABEL, 1))

    def _compute(self) -> None:
        """Paint the rows anew in which another cell or the cursor is; all of them where they mean something else."""
        pages, key = self._pages, (self._pages, self.metric, self.view)
        before, kind = self._cells, self._computed[1:2]
        if key != self._computed:  # a cursor that moves within what is shown changes no cell
            self._computed = key
            self._cells = np.zeros((0, 0), np.uint8) if pages is None else cells(pages, self.metric, self.view)
        if before.shape != self._cells.shape or kind != (self.metric,):
            self.refresh()
        else:
            changed = {int(row) for row in np.flatnonzero((before != self._cells).any(axis=1))}
            rows = changed | {self._cursor, self.cursor_row}
            self.refresh(*(Region(0, row, self.size.width, 1) for row in rows))
        self._cursor = self.cursor_row

    def notify_style_update(self) -> None:
        self._palette = None
        super().notify_style_update()

    # Painting

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        levels, label, cursor, ground = self._styles()
        if self._pages is None or y >= len(self._cells):
            return Strip.blank(width, ground)
        layer = self.view.layers_of(y, self._pages.num_layers).start
        segments = [Segment(f"{layer:>{_LABEL - 1}} ", label)]
        row, shapes = self._cells[y], _TIERS if self.metric == "tier" else _BARS
        ends = np.flatnonzero(np.diff(row)) + 1
        for start, end in zip([0, *ends.tolist()], [*ends.tolist(), len(row)], strict=True):
            if end > start:
                level = int(row[start])
                segments.append(Segment(shapes[level] * (end - start), levels[level]))
        strip = Strip(segments).adjust_cell_length(width, ground)
        if y == self.cursor_row and len(row):
            at = _LABEL + (self.cursor_page - self._first) // self.view.per_cell
            strip = Strip.join([strip.crop(0, at), Strip([Segment(_CURSOR, cursor)]), strip.crop(at + 1, width)])
        return strip

    def _styles(self) -> tuple[list[Style], Style, Style, Style]:
        """Of each level, of labels, of the cursor and of the ground: looked up once, for a line has up to hundreds."""
        if self._palette is None:
            ground = self.rich_style
            if self.metric == "tier":
                levels = [self.get_component_rich_style(f"heat-map--{name}") for name in _PLACES]
            else:
                low, high = (self.get_component_styles(f"heat-map--{name}").color for name in ("low", "high"))
                blends = (low.blend(high, level / (LEVELS - 1)) for level in range(LEVELS))
                levels = [ground + Style(color=blend.rich_color) for blend in blends]
            label, cursor = (self.get_component_rich_style(f"heat-map--{name}") for name in ("label", "cursor"))
            self._palette = levels, label, cursor, ground
        return self._palette

    # Moving

    def action_move(self, down: int, right: int) -> None:
        self._go(self.cursor_row + down, self.cursor_page + right * self.view.per_cell)

    def action_jump(self, screens: int) -> None:
        view = self.view
        self._go(self.cursor_row, self.cursor_page + screens * view.columns * view.per_cell)

    def action_edge(self, end: bool) -> None:
        self._go(self.cursor_row, self._pages.num_pages - 1 if end and self._pages else 0)

    def action_zoom(self, steps: int) -> None:
        """Fewer or more pages a cell; the cursor's page stays where it is."""
        all_steps = self._zooms()
        at = all_steps.index(self.view.per_cell) if self.view.per_cell in all_steps else len(all_steps) - 1
        self._per_cell = all_steps[min(max(at + steps, 0), len(all_steps) - 1)]
        self._go(self.cursor_row, self.cursor_page)
        self.post_message(self.Changed())

    def action_next_metric(self) -> None:
        self.metric = METRICS[(METRICS.index(self.metric) + 1) % len(METRICS)]

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_zoom(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_zoom(1)

    def on_click(self, event: events.Click) -> None:
        column = event.x - _LABEL
        if column >= 0:
            self._go(event.y, self.view.page_of(column))

    def _go(self, row: int, page: int) -> None:
        if self._pages is None or not self._pages.num_pages:
            return
        self.cursor_row = min(max(row, 0), self.view.rows - 1)
        self.cursor_page = min(max(page, 0), self._pages.num_pages - 1)
        self._keep_cursor()
        self._compute()
        layers = self.view.layers_of(self.cursor_row, self._pages.num_layers)
        self.post_message(self.CursorMoved(self.cursor_page, layers))

    def _keep_cursor(self) -> None:
        """Scroll so that the cursor is on the screen, in whole cells."""
        per_cell, columns = self.view.per_cell, self.view.columns
        cell, first = self.cursor_page // per_cell, self._first // per_cell
        num_cells = -(-self._pages.num_pages // per_cell) if self._pages else 0
        first = min(max(first, cell - columns + 1), cell, max(num_cells - columns, 0))
        self._first = first * per_cell
