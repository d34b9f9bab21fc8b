"""The ledger of an answer: every candidate with its ranks, what became of it and why, and the pages read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.documents.answer import reasons
from octavo.app.tui.text import count, one_line, visible

ShowSource = Callable[[str, Sequence[tuple[int, int]], str], None]
_MARKS = {"chosen": "●", "trimmed": "◐", "read": "●"}


class EvidenceScreen(ModalScreen[None]):
    """`record` is what the answer's record says of its documents. Enter on a row opens its place."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "dismiss", "Close")]

    def __init__(self, record: Mapping[str, Any], show_source: ShowSource) -> None:
        super().__init__()
        self._record = record
        self._show_source = show_source
        self._places: list[tuple[str, int, int, str]] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static("Where the answer comes from", classes="dialog-title")
            yield Static("\n".join(summary(self._record)), id="evidence-summary", markup=False)
            yield OptionList(*self._options(), id="evidence", markup=False)
            yield Static("[@click=screen.dismiss]Esc closes[/] · Enter opens the place", classes="dialog-foot")

    def on_mount(self) -> None:
        self.query_one("#evidence").focus()

    def _options(self) -> Iterator[Option]:
        record = self._record
        told: set[tuple[str, int]] = set()
        for citation in record["citations"]:
            if (citation["id"], citation["start"]) in told:
                continue
            told.add((citation["id"], citation["start"]))
            borne = "borne out" if citation["supported"] else "not borne out"
            place = f"page {citation['page']}, " if citation["page"] is not None else ""
            head = f"[{citation['id']}] cited, {borne}{_read(record, citation['id'])} · {place}"
            head += f"{citation['start']:,}-{citation['end']:,}"
            yield self._option(head, citation["quote"], citation["document"], citation, f"[{citation['id']}]")
        for row in record["ledger"]:
            ranks = f"words {row['word_rank'] or '-'}, meaning {row['vector_rank'] or '-'}"
            cosine = f" ({row['cosine']:.2f})" if row["cosine"] is not None else ""
            page = f" p.{row['page']}" if row["page"] is not None else ""
            head = f"{_MARKS.get(row['decision'], '○')} {row['id'] or '  '}  {row['document']}{page}"
            detail = f"{row['decision']}: {row['reason']} · {ranks}{cosine} · {count(row['tokens'], 'token')}"
            yield self._option(head, detail, row.get("document_id", ""), row, row["id"] or "")
        for part in record.get("pages_read") or ():
            page = f"page {part['page']}, " if part["page"] is not None else ""
            cited = f", cited as {', '.join(part['cited'])}" if part["cited"] else ", not cited"
            head = f"◇ page read: {page}{part['start']:,}-{part['end']:,}, {count(part['times'], 'time')}{cited}"
            yield self._option(head, part["text"], part["document"], part, "page read")

    def _option(self, head: str, detail: str, document: str, place: Mapping[str, Any], title: str) -> Option:
        self._places.append((document, place["start"], place["end"], title))
        text = Content.assemble((one_line(head), "bold"), "\n  ", (one_line(detail, 160), "dim"))
        return Option(text, disabled=not document)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        document, start, end, title = self._places[event.option_index]
        self._show_source(document, [(start, end)], title)


def _read(record: Mapping[str, Any], citation_id: str) -> str:
    """Whether the attention selected what is cited, where it had to select."""
    parts = record.get("pages_read")
    if parts is None:
        return ""
    times = sum(part["times"] for part in parts if citation_id in part["cited"])
    return f", read {count(times, 'time')}" if times else ", not among the pages read most"


def summary(record: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said of the answer as a whole."""
    how = "the document was read whole" if record["mode"] == "read" else "the documents were searched"
    yield f"{how.capitalize()}. The question is covered by {record['coverage']:.0%}."
    if record["refused"]:
        yield from map(visible, reasons(record))
    if record["mode"] == "read" and record.get("pages_read") is None:
        yield "Every page was read for every word of the answer; nothing had to be selected."
    for sentence in record["unsupported"]:
        yield f"Not borne out by any source: “{one_line(sentence)}”"
    for note in record["notes"]:
        yield visible(note)
