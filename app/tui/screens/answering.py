"""Asking and being answered: sending, editing, regenerating, stopping, and what the engine tells meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.widgets import Static

from octavo.app.tui.parts import parts_of
from octavo.app.tui.screens.managing import Managing

if TYPE_CHECKING:
    from octavo.app.assistant.chat import AnswerDone, AnswerStarted
    from octavo.app.assistant.engine_events import ModelFailed, Status
    from octavo.storage.conversations import Conversation, StoredMessage

UNSAVED = "unsaved"
_WAITING = "Waiting, Esc stops"


class Answering(Managing):
    """One answer at a time. It goes on while another conversation is looked at."""

    async def send(self, text: str) -> None:
        """Send what is in the input: as a new message, or in place of the one being edited.

        While an answer is being written a new message waits for its end.
        """
        if self.editing_id is not None and self.refuse_while_busy():
            return
        self.prompt.take_text()
        if self.backend is None:
            self.unsent = f"{self.unsent}\n\n{text}" if self.unsent else text
            self.status.change(state="Starting… your message goes out as soon as Octavo is ready")
        elif self.editing_id is not None:
            editing, self.editing_id = self.editing_id, None
            self.query_one("#mode").display = False
            self._begin()
            await self.transcript.truncate(editing)
            await self._show_unsaved(text)
            self.backend.engine.edit(editing, text)
        elif self.is_busy:
            self.waiting.put(self.conversation_id, text)
        else:
            await self._ask(self.conversation_id, text)

    async def _ask(self, conversation_id: str | None, text: str) -> None:
        """Ask in a conversation, in whichever one is on the screen; None begins one."""
        assert self.backend is not None
        self._begin()
        begins = conversation_id == self.conversation_id and self.is_unasked
        if conversation_id == self.conversation_id:
            await self._show_unsaved(text)
        if conversation_id is not None:
            self.backend.engine.turn(conversation_id, text, system=self._take_system() if begins else None)
            return
        self.in_thread(self.store.create, lambda conversation: self._ask_in_new(conversation, text), self._ended_by)

    def _ask_in_new(self, conversation: Conversation, text: str) -> None:
        assert self.backend is not None
        self.waiting.created(conversation.id)
        if self.conversation_id is None:
            self.enter(conversation.id)
        self.backend.engine.turn(conversation.id, text, system=self._take_system())

    def _take_system(self) -> str | None:
        system, self.new_system = self.new_system, None
        return system

    async def _ask_next(self) -> None:
        """Send the message that waited longest."""
        message = self.waiting.take()
        if message is not None:
            await self._ask(message.conversation_id, message.text)

    def take_back_waiting(self) -> None:
        """Put what waits into the input again, before what was typed since."""
        texts = self.waiting.take_all()
        if texts:
            typed = self.prompt.whole_text
            self.prompt.set_text("\n\n".join([*texts, typed] if typed.strip() else texts))

    async def _show_unsaved(self, text: str) -> None:
        from octavo.storage.conversations import StoredMessage

        message = StoredMessage(UNSAVED, self.conversation_id or "", None, "user", text, "complete", "", (), "", {})
        await self.transcript.add(parts_of(message))

    def _begin(self) -> None:
        self.is_busy = True
        self.status.change(state=_WAITING, is_busy=True)

    def _end(self, state: str = "Ready") -> None:
        self.is_busy = False
        self.live_id = self.live_conversation = None
        self.live_text = ""
        self.status.change(state=state, is_busy=False)

    def _break_off(self, state: str = "Ready") -> None:
        """End without the answer that was asked for; what waits must not go out as if nothing had happened."""
        self._end(state)
        self.take_back_waiting()

    def _ended_by(self, error: Exception) -> None:
        self._break_off()
        self.show_error(error)

    async def regenerate(self, message_id: str) -> None:
        """Answer a question again; `message_id` is the question or an answer to it."""
        if self.backend is None or message_id == UNSAVED or self.refuse_while_busy():
            return
        messages = list({part.message.id: part.message for part in self.transcript.parts}.values())
        place = next((place for place, message in enumerate(messages) if message.id == message_id), None)
        if place is None:
            return
        after = place if messages[place].role == "assistant" else place + 1
        if after < len(messages):
            await self.transcript.truncate(messages[after].id)
        self._begin()
        self.backend.engine.regenerate(message_id)

    def start_editing(self, message: StoredMessage) -> None:
        """Put a message into the input; sending it makes a branch."""
        if message.id == UNSAVED or self.refuse_while_busy():
            return
        self.editing_id = message.id
        mode = self.query_one("#mode", Static)
        mode.update("✎ Editing an earlier message. Enter asks again from there, Esc leaves it.")
        mode.display = True
        self.prompt.set_text(message.text)
        self.prompt.focus()

    def stop(self) -> bool:
        """Stop the answer; False if there is none."""
        if self.backend is None or not self.is_busy:
            return False
        self.backend.engine.cancel()
        self.take_back_waiting()
        self.status.change(state="Stopping…")
        return True

    # What the engine tells

    async def engine_event(self, event: Any) -> None:
        """Take one event; texts of the live answer are the most frequent."""
        from octavo.app.assistant import chat, engine_events, watch

        match event:
            case chat.AnswerText():
                await self._text(event.message_id, event.text)
            case chat.UserSaved():
                await self._saved(event.message)
            case chat.AnswerStarted():
                await self._started(event)
            case chat.AnswerRetrying():
                self.status.change(state=f"{event.why}, Esc stops")
            case chat.AnswerDone():
                await self._done(event)
            case engine_events.Status():
                self._figures(event)
            case engine_events.ProblemsFound():
                for sentence in event.sentences:
                    self.tell(sentence, severity="warning")
            case watch.PagesShown():
                if self.inspecting is not None:
                    self.inspecting.pages_shown(event)
            case engine_events.PagesForgotten():
                self.tell_forgotten(event.result)
            case engine_events.ModelLoading():
                self.budgets = ()
                self.status.change(model=event.name, state=f"Loading {event.name}…", is_busy=True)
            case engine_events.ModelReady():
                self.spare_pauses()
                if self.backend is not None:
                    self.backend.model = event.name
                self.budgets = event.budgets
                self.status.change(model=event.name, limit=event.context, used=0)
                self.status.change(state=_WAITING if self.is_busy else "Ready", is_busy=self.is_busy)
            case engine_events.ModelFailed():
                self._model_failed(event)
            case engine_events.TurnFailed():
                self._break_off()
                self.tell(event.error, severity="error")
            case engine_events.EngineCrashed():
                await self._crashed(event.error)
        changes = (chat.AnswerStarted, chat.AnswerDone, engine_events.PagesForgotten, engine_events.ModelReady)
        if self.inspecting is not None and isinstance(event, changes):
            self.inspecting.look_again()

    async def _saved(self, message: StoredMessage) -> None:
        if message.conversation_id == self.conversation_id:
            self.transcript.replace_message(UNSAVED, message)
            self.load_branches((message.id,))
        self.load_page()

    async def _started(self, event: AnswerStarted) -> None:
        message = event.message
        self.live_id, self.live_conversation, self.live_text = message.id, message.conversation_id, ""
        self.answered = message.conversation_id
        self.status.change(state="Reading, Esc stops", is_busy=True, limit=event.context)
        if message.conversation_id == self.conversation_id:
            self.status.change(used=event.prompt_tokens, tokens_per_s=0.0)
        if message.conversation_id == self.conversation_id:
            self.transcript.set_left_out({item.message_id: item.reason for item in event.left_out})
            await self.transcript.add(parts_of(message))

    async def _text(self, message_id: str, text: str) -> None:
        if not self.live_text:
            self.status.change(state="Writing, Esc stops")
        self.live_text += text
        if self._is_shown(message_id):
            await self.transcript.stream(text)

    def _is_shown(self, message_id: str) -> bool:
        parts = self.transcript.parts
        return bool(parts) and parts[-1].message.id == message_id

    async def _done(self, event: AnswerDone) -> None:
        message = event.message
        if self._is_shown(message.id):
            await self.transcript.finish(message)
        elif message.conversation_id == self.conversation_id:
            await self.transcript.add(parts_of(message))
        if message.status == "complete":
            self._end()
        else:
            self._break_off("Stopped" if message.status == "cancelled" else "Ready")
        if message.status == "error":
            self.tell(str(message.record.get("error") or "The answer broke off."), severity="error")
        if message.conversation_id == self.conversation_id:
            self.load_branches((message.id,))
            self.in_thread(lambda: self.store.get(message.conversation_id), self._retitle)
        self.load_page()
        await self._ask_next()

    def _retitle(self, conversation: Conversation) -> None:
        if conversation.id == self.conversation_id:
            self.top.title_text = conversation.title
            self.sidebar.list.set_current(conversation.id)

    def _figures(self, status: Status) -> None:
        """Of the conversation on the screen; it may be another that is answered."""
        self.status.change(limit=status.tokens_limit)
        if self.answered == self.conversation_id:
            self.status.change(used=status.tokens_used, tokens_per_s=status.tokens_per_s)

    def _model_failed(self, event: ModelFailed) -> None:
        self._break_off("No model")
        self.status.change(model=event.name)
        if event.kind == "missing":
            self.offer_models()
        else:
            self.tell(event.error, severity="error")

    def offer_models(self) -> None:
        """Let the user choose a model to download."""
        from octavo.app.tui.screens.first_run import FirstRun

        if self.backend is None or isinstance(self.app.screen, FirstRun):
            return
        self.app.push_screen(FirstRun(self.backend.paths, offline=self.backend.settings.offline), self._downloaded)

    def _downloaded(self, model: str | None) -> None:
        if model is not None:
            self.use_model(model)

    def use_model(self, name: str) -> None:
        """Load another model, and the next time too."""
        backend = self.backend
        if backend is not None and not self.refuse_while_busy():
            self.in_thread(lambda: backend.choose_model(name), lambda _: backend.engine.load(name))

    async def _crashed(self, error: str) -> None:
        """The thread lives and the conversation is saved; show what is saved."""
        self._break_off("The engine broke down; the next message starts it again")
        self.tell(f"The engine broke down: {error}. The conversation is saved.", severity="error")
        if self.conversation_id is not None:
            self.open_conversation(self.conversation_id)


def joined(events: Sequence[Any]) -> Iterator[Any]:
    """The same events, with neighbouring texts of one answer made into one."""
    from octavo.app.assistant.chat import AnswerText

    waiting: AnswerText | None = None
    for event in events:
        if isinstance(event, AnswerText) and waiting is not None and waiting.message_id == event.message_id:
            waiting = replace(event, text=waiting.text + event.text)
            continue
        if waiting is not None:
            yield waiting
        waiting = event if isinstance(event, AnswerText) else None
        if waiting is None:
            yield event
    if waiting is not None:
        yield waiting
