"""A chosen answer: what its prompt was made of, which pages were read for it, what it cites, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from octavo.app.tui.answer_text import answer_content, chosen_pages
from octavo.app.tui.text import one_line
from octavo.app.tui.widgets.inspection_tab import InspectionTab

if TYPE_CHECKING:
    from octavo.app.assistant.watch import PagesShown
    from octavo.storage.records import StoredMessage

_LIVE_S = 0.5
_WITHOUT_TEXT = "(no text yet)"


class AnswerTab(InspectionTab):
    """The answers of the open conversation, the newest first."""

    def __init__(self, chat: object) -> None:
        super().__init__(chat)  # type: ignore[arg-type]
        self._answers: dict[str, StoredMessage] = {}
        self._texts: dict[int, str] = {}
        self._remembered: list[str] = []
        self._chosen = ""

    def compose(self) -> ComposeResult:
        with Container(id="answer-body"):
            yield OptionList(id="answers", markup=False, compact=True)
            with VerticalScroll(id="answer-scroll"):
                yield Static("", id="answer-text", markup=False)

    def on_mount(self) -> None:
        self.set_interval(_LIVE_S, self._show_live)

    def activate(self) -> None:
        self.query_one("#answers").focus()
        self.look()

    def look(self) -> None:
        conversation_id, store = self.chat.conversation_id, self.backend.conversations
        if conversation_id is None:
            self.query_one("#answer-text", Static).update("No conversation is open.")
            return
        self.in_thread(lambda: store.path(conversation_id), self._list, group="answers")

    def _list(self, path: list[StoredMessage]) -> None:
        options = self.query_one("#answers", OptionList)
        answers = [message for message in reversed(path) if message.role == "assistant"]
        stays = self._chosen if options.highlighted else ""  # but after the newest answer comes the next
        self._answers = {message.id: message for message in answers}
        options.clear_options()
        options.add_options([Option(one_line(m.text, 60) or _WITHOUT_TEXT, id=m.id) for m in answers])
        if not answers:
            self.query_one("#answer-text", Static).update("There is no answer yet.")
        else:
            options.highlighted = list(self._answers).index(stays) if stays in self._answers else 0
            self._choose(str(options.get_option_at_index(options.highlighted).id))

    @on(OptionList.OptionHighlighted, "#answers")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_id is not None and event.option_id != self._chosen:
            self._choose(event.option_id)

    def _choose(self, message_id: str) -> None:
        from octavo.app.assistant.watch import Look

        message = self._answers[message_id]
        self._chosen, self._texts, self._remembered = message_id, {}, []
        pages = chosen_pages(message)
        if pages:
            look = Look(message.conversation_id, None, message_id, pages)
            self.backend.engine.watch.look(look)
        memory = self.backend.memory
        if memory is not None:
            from octavo.app.tui.memory_rows import used_rows

            self.in_thread(lambda: used_rows(memory, message), self._with_memories, group="answer-memories")
        self._show()

    def _with_memories(self, found: tuple[list, list[str]]) -> None:  # type: ignore[type-arg]
        rows, notes = found
        self._remembered = [*(f"· {row.text}" for row in rows), *notes]
        self._show()

    def pages_shown(self, event: PagesShown) -> None:
        if event.look.message_id == self._chosen and self._chosen:
            self._texts = dict(event.texts)
            self._show()

    def _show_live(self) -> None:
        """The answer that is being written grows."""
        if self.is_shown and self._chosen and self._chosen == self.chat.live_id:
            self._show()

    def _show(self) -> None:
        scroll, text = self.query_one("#answer-scroll"), self.query_one("#answer-text", Static)
        width = max(scroll.size.width - 2, 30)
        answer = self._answers[self._chosen]
        used = self.chat.status.figures.used if answer.id == self.chat.live_id else 0
        content = answer_content(answer, self._texts, self._remembered, width, used)
        if content != text.content:
            text.update(content)
