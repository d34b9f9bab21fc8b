"""Conversations on the main screen: listing, opening, renaming, deleting, exporting, and their branches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.tui.parts import parts_of
from octavo.app.tui.screens.base import ScreenBase
from octavo.app.tui.widgets.sidebar import PAGE

if TYPE_CHECKING:
    from octavo.app.assistant.forgetting import Forgotten
    from octavo.app.tui.parts import Part
    from octavo.storage.conversations import Conversation, Conversations, StoredMessage

NEW_TITLE = "New conversation"


class Managing(ScreenBase):
    """What is done with whole conversations."""

    @property
    def store(self) -> Conversations:
        """The conversations on disk; only asked for once the backend is open."""
        assert self.backend is not None, "the screen offers conversations only once they are open"
        return self.backend.conversations

    # The list

    def load_page(self, before: tuple[str, str] | None = None) -> None:
        """List a page of what the search finds, the first one without `before`."""
        if self.backend is None:
            return
        query = self.sidebar.query_text
        self.in_thread(
            lambda: self.store.list(limit=PAGE, before=before, query=query),
            lambda page: (
                self.sidebar.show_page(page, first=before is None) if query == self.sidebar.query_text else None
            ),
            group="list",
        )

    # Opening

    def open_conversation(self, conversation_id: str) -> None:
        """Read a conversation and show it."""
        store = self.store

        def read() -> tuple[Conversation, list[StoredMessage], dict[str, str]]:
            from octavo.app.assistant.history import left_out_ids

            path = store.path(conversation_id)
            return store.get(conversation_id), path, left_out_ids(path)

        self.in_thread(read, self._show, group="open")

    async def _show(self, read: tuple[Conversation, list[StoredMessage], dict[str, str]]) -> None:
        conversation, path, left_out = read
        self.stop_editing()
        self.enter(conversation.id)
        self.top.title_text = conversation.title or NEW_TITLE
        limit = self.status.figures.limit or _tokens(path)  # what is more will be left out of the next prompt
        self.status.change(used=min(_tokens(path), limit), tokens_per_s=0.0)
        live = path[-1] if path and path[-1].id == self.live_id else None
        done = path[:-1] if live else path
        parts = [part for message in done for part in parts_of(message, left_out.get(message.id, ""))]
        await self.transcript.show(parts)
        if live is not None:
            await self._show_live(live)
        self.sidebar.list.set_current(conversation.id)
        self.prompt.focus()

    async def _show_live(self, message: StoredMessage) -> None:
        """An answer that is being written: what the engine told so far, which may be more than is saved."""
        await self.transcript.add(parts_of(replace(message, text="")))
        await self.transcript.stream(self.live_text)

    async def show_new(self) -> None:
        """An empty transcript; the conversation is made when the first message is sent."""
        self.stop_editing()
        self.enter(None)
        self.top.title_text = NEW_TITLE
        self.status.change(used=0, tokens_per_s=0.0)
        await self.transcript.show([])
        self.sidebar.list.set_current(None)
        self.prompt.focus()

    # Branches

    def load_branches(self, message_ids: tuple[str, ...]) -> None:
        """Find out which of these messages have siblings."""
        if self.backend is None:
            return
        store = self.store
        self.in_thread(
            lambda: {key: tuple(store.siblings(key)) for key in message_ids if not key.startswith("unsaved")},
            lambda branches: self.transcript.set_branches(branches),
        )

    def go_to_branch(self, part: Part, step: int) -> None:
        """Show the branch before (-1) or after (+1), around the end."""
        branches = part.branches
        if len(branches) < 2 or self.refuse_while_busy():
            return
        wanted = branches[(branches.index(part.message.id) + step) % len(branches)]
        conversation_id = part.message.conversation_id
        self.in_thread(lambda: self.store.select_branch(wanted), lambda leaf: self.open_conversation(conversation_id))

    def refuse_while_busy(self) -> bool:
        """True, with a notice, while an answer is being written in this conversation."""
        if self.is_busy:
            self.tell("An answer is being written; Esc stops it.")
        return self.is_busy

    # Changing

    def rename(self, conversation_id: str, title: str) -> None:
        def renamed(_: object) -> None:
            if conversation_id == self.conversation_id:
                self.top.title_text = title
            self.load_page()

        if title:
            self.in_thread(lambda: self.store.rename(conversation_id, title), renamed)

    def ask_rename(self, conversation_id: str) -> None:
        from octavo.app.tui.screens.dialogs import AskText

        def ask(conversation: Conversation) -> None:
            self.app.push_screen(
                AskText("Rename this conversation", conversation.title),
                lambda title: self.rename(conversation_id, title or ""),
            )

        self.in_thread(lambda: self.store.get(conversation_id), ask)

    def ask_system(self) -> None:
        """Show the system prompt of this conversation, to be changed."""
        from octavo.app.assistant.history import system_of
        from octavo.app.tui.screens.dialogs import AskText

        assert self.backend is not None
        store, default = self.store, self.backend.settings.system

        def ask(system: str) -> None:
            self.app.push_screen(
                AskText("System prompt of this conversation", system, placeholder="none"),
                lambda text: self.set_system(text) if text not in (None, system) else None,
            )

        conversation_id = self.conversation_id
        if conversation_id is None or self.is_unasked:
            ask(default if self.new_system is None else self.new_system)
        else:
            self.in_thread(lambda: system_of(store.path(conversation_id), default), ask)

    def set_system(self, text: str | None) -> None:
        """Use this system prompt from the next answer on; of a new conversation, from its first."""
        from octavo.app.assistant.history import set_system

        conversation_id = self.conversation_id
        if conversation_id is None or self.is_unasked:
            self.new_system = text
            self.tell("The conversation will begin with this system prompt.")
        else:
            store = self.store
            self.in_thread(
                lambda: set_system(store, conversation_id, text),
                lambda _: self.tell("The next answer follows this system prompt."),
            )

    def ask_delete(self, conversation_id: str) -> None:
        from octavo.app.tui.screens.dialogs import Confirm

        if conversation_id == self.live_conversation and self.refuse_while_busy():
            return

        def ask(conversation: Conversation) -> None:
            detail = (
                f"“{conversation.title or NEW_TITLE}”, {conversation.num_messages} messages. This cannot be undone."
            )
            self.app.push_screen(
                Confirm("Delete this conversation?", detail, yes="Delete"),
                lambda yes: self._delete(conversation_id) if yes else None,
            )

        self.in_thread(lambda: self.store.get(conversation_id), ask)

    def _delete(self, conversation_id: str) -> None:
        from octavo.app.assistant.forgetting import delete_conversation

        assert self.backend is not None
        store, paths, engine = self.store, self.backend.paths, self.backend.engine

        async def deleted(_: object) -> None:
            engine.forget(conversation_id)
            self.waiting.forget(conversation_id)
            if conversation_id == self.conversation_id:
                await self.show_new()
            self.load_page()

        self.in_thread(lambda: delete_conversation(store, paths, conversation_id), deleted)

    def tell_forgotten(self, result: Forgotten) -> None:
        """Say what became of the pages of a conversation that was deleted."""
        if result.problem:
            self.tell(result.problem, severity="warning")
        if freed := result.freed():
            self.tell(f"{freed} that were kept for what was deleted are free again.")

    def export(self, conversation_id: str, name: str) -> None:
        """Write a conversation into a file: JSON with all branches for .json, else Markdown."""
        store = self.store

        def write() -> Path:
            from octavo.storage.export import to_json, to_markdown

            conversation = store.get(conversation_id)
            file = Path(name).expanduser() if name else Path(_file_name(conversation))
            if file.suffix == ".json":
                document = to_json(conversation, store.tree(conversation_id))
                text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
            else:
                text = to_markdown(conversation, store.path(conversation_id))
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
            return file.absolute()

        def failed(error: Exception) -> None:
            if isinstance(error, FileExistsError):
                self.tell(
                    f"{error.filename} is there already; give another name, as in /export notes.md.", severity="error"
                )
            elif isinstance(error, OSError):
                self.tell(f"{error.filename} cannot be written: {error.strerror}.", severity="error")
            else:
                self.show_error(error)

        self.in_thread(write, lambda file: self.tell(f"Written to {file}."), failed)

    def stop_editing(self) -> None:
        """Leave the mode in which the input replaces an earlier message."""
        if self.editing_id is not None:
            self.editing_id = None
            self.prompt.set_text("")
            self.query_one("#mode").display = False


def _file_name(conversation: Conversation) -> str:
    """A plain file name made of the title."""
    words = "".join(character if character.isalnum() else " " for character in conversation.title).split()
    return f"{'-'.join(words)[:60].lower() or 'conversation'}.md"


def _tokens(path: Sequence[StoredMessage]) -> int:
    """Of the context, what the last answer of a conversation took with its prompt; 0 before the first."""
    for message in reversed(path):
        if usage := message.record.get("usage"):
            return int(usage.get("prompt_tokens", 0)) + int(usage.get("generated_tokens", 0))
    return 0
