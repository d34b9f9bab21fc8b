"""Where an answer from documents comes from: its evidence, what it cites, and what came nearest where it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from octavo.app.tui.screens.remembering import Remembering
from octavo.app.tui.widgets.document_line import find_place

if TYPE_CHECKING:
    from octavo.storage.conversations import StoredMessage

RECORD = "documents"  # key in an answer's record


class Looking(Remembering):
    """Opens the places that answers point to."""

    async def command_evidence(self, argument: str) -> None:
        answer = self._last_from_documents()
        if answer is not None:
            self.show_evidence(answer)

    async def command_source(self, argument: str) -> None:
        """The place that the last answer cites; `argument` is its number, by default the first."""
        answer = self._last_from_documents()
        if answer is not None and not self._open_place(answer.record[RECORD], argument or "1"):
            self.tell(f"The last answer has no source {argument}." if argument else "The last answer has no source.")

    def _last_from_documents(self) -> StoredMessage | None:
        found = next((p.message for p in reversed(self.transcript.parts) if RECORD in p.message.record), None)
        if found is None:
            self.tell("No answer here came from documents yet; /open opens some.")
        return found

    def document_action(self, message: StoredMessage, action: str) -> None:
        """What an answer's keys, links and buttons ask for: "evidence", or "cite" and what `find_place` takes."""
        record = message.record.get(RECORD)
        if record is None:
            return
        if action == "evidence":
            self.show_evidence(message)
        else:
            self._open_place(record, action.removeprefix("cite "))

    def _open_place(self, record: Mapping[str, Any], wanted: str) -> bool:
        """False if there is no such place."""
        found = find_place(record, wanted)
        if found is not None:
            place, current = found
            self.show_source(place.document, place.spans, f"[{place.id}]", current)
        return found is not None

    def show_evidence(self, message: StoredMessage) -> None:
        """Where an answer came from, and what was not used."""
        from octavo.app.tui.screens.evidence import EvidenceScreen

        self.app.push_screen(EvidenceScreen(message.record[RECORD], self.show_source))

    def show_source(
        self, document_id: str, spans: Sequence[tuple[int, int]], title: str = "", current: int = 0
    ) -> None:
        """A document at a place: `spans` are marked, the `current` one is in view."""
        from octavo.app.tui.screens.source import SourceScreen

        if self.backend is not None and self.backend.shelf is not None:
            self.app.push_screen(SourceScreen(self.backend.shelf, document_id, spans, title, current))
