"""Where the time of recent answers went, as plots: the newest on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from octavo.app.tui.plots import sparkline
from octavo.app.tui.text import count
from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.storage.records import StoredMessage

_ROWS = (
    ("queue", "queue_s", 1e3, "ms"),
    ("prefill", "prefill_s", 1.0, "s"),
    ("first token", "ttft_s", 1.0, "s"),
    ("between, p50", "itl_p50_ms", 1.0, "ms"),
    ("between, p95", "itl_p95_ms", 1.0, "ms"),
    ("between, p99", "itl_p99_ms", 1.0, "ms"),
    ("tokens/s", "tokens_per_s", 1.0, ""),
    ("whole answer", "e2e_s", 1.0, "s"),
)
_HEAD = "  prompt    found  answer  first s  p50 ms     p95     p99  tok/s  ended"
_MOST = 120
_SHOWN = 12


class TimingsTab(InspectionTab):
    """Of all conversations' newest answers; answers of other kinds of records are left out."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="timings-scroll"):
            yield Static("", id="timings", markup=False)

    def activate(self) -> None:
        self.query_one("#timings-scroll").focus()
        self.look()

    def look(self) -> None:
        store = self.backend.conversations
        self.in_thread(lambda: store.newest_answers(_MOST), self._show, group="timings")

    def _show(self, answers: list[StoredMessage]) -> None:
        timed = [message for message in reversed(answers) if message.record.get("timings")]
        width = self.size.width or 80
        self.query_one("#timings", Static).update(timings_content(timed, width))


def timings_content(answers: Sequence[StoredMessage], width: int) -> Content:
    """A row a figure, then a row for each of the newest answers."""
    if not answers:
        return Content("No answer was timed yet.")
    lines = [Content.styled(f"{count(len(answers), 'answer')}, the newest on the right", "bold $text-accent")]
    plot = max(width - 50, 12)
    for name, key, factor, unit in _ROWS:
        values = [factor * float(message.record["timings"].get(key, 0.0)) for message in answers]
        known = sorted(value for value in values if value > 0)
        middle, high = (known[len(known) // 2], known[min(int(0.95 * len(known)), len(known) - 1)]) if known else (0, 0)
        figures = f"newest {values[-1]:,.1f}  p50 {middle:,.1f}  p95 {high:,.1f} {unit}"
        lines.append(Content.assemble((f"{name:<13}", "bold"), (sparkline(values, plot), "$primary"), f"  {figures}"))
    lines += [Content(""), Content.styled("The newest answers", "bold $text-accent")]
    lines.append(Content.styled(_HEAD, "dim"))
    for message in list(reversed(answers))[:_SHOWN]:
        usage, timings = message.record.get("usage") or {}, message.record["timings"]
        numbers = [usage.get(key, 0) for key in ("prompt_tokens", "reused_tokens", "generated_tokens")]
        times = [float(timings.get(key, 0.0)) for key in ("ttft_s", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms")]
        row = f"{numbers[0]:>8,} {numbers[1]:>8,} {numbers[2]:>7,} {times[0]:>8.2f} {times[1]:>7.1f} {times[2]:>7.1f} "
        row += f"{times[3]:>7.1f} {float(timings.get('tokens_per_s', 0.0)):>6.1f}  "
        lines.append(Content(row + str(message.record.get("finish_reason", ""))))
    return Content("\n").join(lines)
