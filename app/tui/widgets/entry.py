"""One message of the transcript, or one piece of a long one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from octavo.app.assistant.usage import describe_record
from octavo.app.tui.parts import FOLDED_CHARACTERS, FOLDED_LINES, Part
from octavo.app.tui.text import count, visible
from octavo.app.tui.widgets.document_line import button, document_line, linked, nearest_lines

if TYPE_CHECKING:
    from textual.widgets.markdown import MarkdownStream

    from octavo.app.tui.widgets.markdown_view import CodeBlock, MarkdownView

# Keys in the record of an answer that came from documents, and of one whose citations were not checked.
_DOCUMENTS, _UNCHECKED = "documents", "unchecked"


class Entry(Vertical, can_focus=True):
    """A focusable piece. The keys shown in its footer work while it has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "screen.focus_entry(-1)", show=False),
        Binding("down,j", "screen.focus_entry(1)", show=False),
        Binding("c", "ask('copy')", show=False),
        Binding("e", "ask('edit')", show=False),
        Binding("r", "ask('regenerate')", show=False),
        Binding("m", "ask('memories')", show=False),
        Binding("v", "ask('evidence')", show=False),
        *(Binding(str(number), f"ask('cite {number}')", show=False) for number in range(1, 10)),
        Binding("left", "ask('older')", show=False),
        Binding("right", "ask('newer')", show=False),
        Binding("enter,space", "unfold", show=False),
    ]

    @dataclass
    class ActionRequested(Message):
        """The user asked for something with this message: copy, edit, regenerate, older or newer (branch), evidence,
        or a citation by its number or id."""

        entry: Entry
        action: str

    def __init__(self, part: Part) -> None:
        super().__init__(classes=f"-{part.message.role}")
        self.part = part
        self.is_folded = part.message.role == "user" and _is_long(part.piece.text)
        self._stream: MarkdownStream | None = None
        self._body: Widget | None = None

    def compose(self) -> ComposeResult:
        self._body = self._make_body()
        yield self._body
        yield _Footer(self)

    async def on_mount(self) -> None:
        self._show_state()
        if self._is_growing and self.markdown is not None:
            await self.markdown.append(self.part.piece.text)

    @property
    def _is_growing(self) -> bool:
        """True for the end of an answer that is being written."""
        return self.part.is_last and self.part.message.status == "streaming"

    def _make_body(self) -> Widget:
        text = self.part.piece.text
        if self.part.message.role == "user":
            return Static(self._user_text(), classes="user-text", markup=False)
        from octavo.app.tui.widgets.markdown_view import MarkdownView

        if _DOCUMENTS in self.part.message.record and not self._is_growing:
            return MarkdownView(self._document_text(text))
        # What is appended to must have been appended from the start: only then does the view know where its last
        # block, which may be an open code block, begins.
        return MarkdownView("" if self._is_growing else text)

    def _document_text(self, text: str) -> str:
        """An answer from documents: its citations are links, and a refusal shows what came nearest."""
        record = self.part.message.record[_DOCUMENTS]
        return f"{text}\n\n{nearest_lines(record)}" if record["refused"] else linked(text, record)

    def on_markdown_view_citation_clicked(self, event: MarkdownView.CitationClicked) -> None:
        event.stop()
        self.action_ask(f"cite {event.id}")

    def _user_text(self) -> str:
        text = self.part.piece.text
        if self.is_folded:
            shown = "\n".join(text[:FOLDED_CHARACTERS].splitlines()[:FOLDED_LINES])
            text = f"{shown}\n… {count(text.count(chr(10)) + 1, 'line')}, {count(len(text), 'character')} in all"
        return visible(text)

    @property
    def markdown(self) -> MarkdownView | None:
        """The view of an answer's text."""
        from octavo.app.tui.widgets.markdown_view import MarkdownView

        return self._body if isinstance(self._body, MarkdownView) else None

    def code_blocks(self) -> list[CodeBlock]:
        """The code blocks on the screen, top to bottom."""
        return self.markdown.code_blocks() if self.markdown is not None else []

    def change(self, part: Part) -> None:
        """Show another state of the same piece; its text is changed only by `write`."""
        self.part = part
        self._show_state()

    def _show_state(self) -> None:
        """Classes go to the footer where they can: one on the entry styles every line of its text anew."""
        self.set_class(bool(self.part.left_out), "-left-out")
        self.set_class(bool(self.part.message.record.get(_UNCHECKED)), "-unchecked")
        for footer in self.query_children(_Footer):
            footer.show_state()

    async def write(self, text: str, part: Part) -> None:
        """Add streamed text at the end, which makes it `part`."""
        was_empty, self.part = not self.part.piece.text, part
        if was_empty:
            self._show_state()
        if self.markdown is None:
            return
        if self._stream is None:
            self._stream = self.markdown.get_stream(self.markdown)
        await self._stream.write(text)

    async def end_stream(self) -> None:
        """Everything written is on the screen when this returns."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.stop()

    def action_ask(self, action: str) -> None:
        self.post_message(self.ActionRequested(self, action))

    def action_unfold(self) -> None:
        if _is_long(self.part.piece.text) and isinstance(self._body, Static):
            self.is_folded = not self.is_folded
            self._body.update(self._user_text())
            self._show_state()


def _is_long(text: str) -> bool:
    return len(text) > FOLDED_CHARACTERS or text.count("\n") >= FOLDED_LINES


class _Footer(Static):
    """The line below a message: what is known about it, and what can be done with it."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(markup=False)
        self._entry = entry

    def show_state(self) -> None:
        """Show the entry's part as it is now."""
        part = self._entry.part
        self.set_class(part.is_last or bool(part.left_out), "-shown")
        self.set_class(part.message.status == "streaming", "-streaming")
        self.set_class(part.message.status == "error", "-failed")
        # A footer that only offers actions shows itself to those who look for it.
        only_actions = part.message.role == "user" and len(part.branches) < 2 and not self._entry.is_folded
        self.set_class(only_actions and not part.left_out, "-quiet")
        self.refresh(layout=True)

    def render(self) -> Content:
        part = self._entry.part
        notes = _notes(part)
        pieces = [Content(" · ".join(notes))] if notes else []
        if part.is_last and part.message.status != "streaming":
            pieces.append(Content("  ").join(self._actions(part)))
        lines = [Content("   ").join(pieces)]
        reading = describe_record(part.message.record) if part.is_last else ""
        # On a row of its own, so that a narrow terminal breaks neither it nor the buttons.
        if part.is_last and _DOCUMENTS in part.message.record:
            lines.append(document_line(part.message.record[_DOCUMENTS]))
        return Content("\n").join([*lines, Content(reading)] if reading else lines)

    def _actions(self, part: Part) -> list[Content]:
        user = part.message.role == "user"
        actions = [button("copy", "copy"), button("edit", "edit") if user else button("again", "regenerate")]
        if not user and (number := len((part.message.record.get("memories") or {}).get("ids", ()))):
            actions.append(button("1 memory" if number == 1 else f"{number} memories", "memories"))
        if len(part.branches) > 1 and part.message.id in part.branches:
            place = part.branches.index(part.message.id) + 1
            actions += [button("‹", "older") + Content(f"{place}/{len(part.branches)}") + button("›", "newer")]
        if user and _is_long(part.piece.text):
            actions.append(button("unfold" if self._entry.is_folded else "fold", "unfold"))
        return actions

    def action_press(self, action: str) -> None:
        if action == "unfold":
            self._entry.action_unfold()
        else:
            self._entry.action_ask(action)


def _notes(part: Part) -> list[str]:
    """What is known about a message, in a few words."""
    message, notes = part.message, []
    if part.left_out:
        notes.append(f"not in the prompt: {part.left_out}")
    if not part.is_last or message.role == "user":
        return notes
    unchecked = message.record.get(_UNCHECKED)
    if message.status == "streaming":
        writing = "draft, checked against the sources when it ends" if unchecked else "writing…"
        return [*notes, writing if part.piece.text else "reading…"]
    ending = {"cancelled": "stopped", "error": "broke off", "interrupted": "interrupted when Octavo ended"}
    record = message.record
    if record.get("refused"):
        notes.append("not asked")
    elif message.status in ending:
        notes.append(ending[message.status])
    elif record.get("finish_reason") == "length":
        notes.append("cut off at the longest answer allowed")
    if unchecked and part.piece.text:
        notes.append("never checked against the sources")
    if message.status == "error" and record.get("error"):
        notes.append(visible(str(record["error"])))
    usage, timings = record.get("usage") or {}, record.get("timings") or {}
    if message.model:
        notes.append(visible(message.model))
    if usage.get("generated_tokens"):
        notes.append(count(usage["generated_tokens"], "token"))
    if timings.get("tokens_per_s"):
        notes.append(f"{timings['tokens_per_s']:.1f} tok/s")
    return notes
