"""The order in which to look when memory runs out, with this machine's figures: as `octavo doctor --memory`."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.app.triage import Step


class TriageTab(InspectionTab):
    """Seven steps, as they are when the tab is shown."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="triage-scroll"):
            yield Static("Looking…", id="triage", markup=False)

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._steps: list[Step] = []

    def activate(self) -> None:
        self.query_one("#triage-scroll").focus()
        self.look()

    def look(self) -> None:
        backend, snapshot = self.backend, self.backend.engine.watch.snapshot

        def look() -> list[Step]:
            from octavo.app.models.planned import planned_model
            from octavo.app.triage import Case, examine_memory

            settings = backend.settings.model_copy(update={"model": backend.model})
            device = snapshot.engine.device if snapshot is not None else "cpu"
            model = planned_model(settings, backend.paths, device)
            answers = backend.conversations.newest_answers()
            titles = backend.conversations.titles({answer.conversation_id for answer in answers})
            return examine_memory(Case(settings, model, device, answers, snapshot, titles))

        self.in_thread(look, self._show, self._failed, group="triage")

    def _show(self, steps: list[Step]) -> None:
        self._steps = steps
        self._lay_out()

    def on_resize(self) -> None:
        if self._steps:
            self._lay_out()

    def _lay_out(self) -> None:
        """Sentences stay to the right of the numbers where they are longer than a line."""
        width, lines = max(self.size.width - 2, 20), list[Content]()
        for number, step in enumerate(self._steps, start=1):
            lines.append(Content.styled(f"{number}. {step.title}", "bold $text-accent"))
            for finding in step.findings:
                lines.append(Content(fill(finding, width, initial_indent="   ", subsequent_indent="   ")))
            remedy = fill(step.remedy, width, initial_indent="   → ", subsequent_indent="     ")
            lines += [Content.styled(remedy, "$text-success"), Content("")]
        self.query_one("#triage", Static).update(Content("\n").join(lines))

    def _failed(self, error: Exception) -> None:
        self.query_one("#triage", Static).update(f"The model cannot be looked at: {error}")
