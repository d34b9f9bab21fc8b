"""What keys, commands, buttons and the palette do on the main screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from octavo.app.tui import commands
from octavo.app.tui.commands import SlashCommand
from octavo.app.tui.screens.documenting import Documenting
from octavo.app.tui.widgets.entry import Entry
from octavo.app.tui.widgets.sidebar import ConversationList

if TYPE_CHECKING:
    from octavo.app.tui.parts import Part
    from octavo.app.tui.widgets.markdown_view import CodeBlock
    from octavo.storage.conversations import StoredMessage


class Commanding(Documenting):
    """Actions, slash commands, and the copying of texts."""

    # Slash commands: `take_command` when chosen from the list, `run_command` when typed out

    async def take_command(self, command: SlashCommand) -> None:
        """Run it, or put it into the input where it takes an argument that was not given and must be."""
        if command.needs_argument:
            self.prompt.set_text(f"/{command.name} ")
            self.prompt.focus()
        else:
            await self.run_command(f"/{command.name}")

    async def run_command(self, text: str) -> None:
        found = commands.parse(text)
        if found is None:
            self.tell(f"There is no command {text.split()[0]}; F1 lists them.", severity="warning")
            return
        self.prompt.take_text()
        command, argument = found
        await getattr(self, f"command_{command.name}")(argument)

    async def command_help(self, argument: str) -> None:
        self.action_help()

    async def command_new(self, argument: str) -> None:
        await self.action_new()

    async def command_model(self, argument: str) -> None:
        if argument and self.backend is not None:
            self.use_model(argument)
        else:
            self.action_models()

    async def command_budgets(self, argument: str) -> None:
        self.action_budgets()

    async def command_inspect(self, argument: str) -> None:
        self.action_inspect()

    async def command_close(self, argument: str) -> None:
        closed = self.conversation_id
        if closed is None:
            self.tell("There is no conversation to close yet.")
        elif not self.refuse_while_busy():
            await self.show_new()
            if self.backend is not None:
                self.backend.engine.watch.close(closed)

    async def command_rename(self, argument: str) -> None:
        if argument and self.conversation_id is not None:
            self.rename(self.conversation_id, argument)
        else:
            self.action_rename()

    async def command_delete(self, argument: str) -> None:
        if self.conversation_id is None:
            self.tell("There is no conversation to delete yet.")
        else:
            self.ask_delete(self.conversation_id)

    async def command_export(self, argument: str) -> None:
        if self.conversation_id is None:
            self.tell("There is no conversation to export yet.")
        else:
            self.export(self.conversation_id, argument)

    async def command_copy(self, argument: str) -> None:
        answer = self._last("assistant")
        if answer is None:
            self.tell("There is no answer to copy yet.")
        elif argument:
            from octavo.app.tui.widgets.markdown_view import code_in

            blocks = code_in(answer.text)
            self.octavo.copy(blocks[-1], "the code") if blocks else self.tell("The last answer has no code block.")
        else:
            self.octavo.copy(answer.text, "the answer")

    async def command_regenerate(self, argument: str) -> None:
        await self.action_regenerate()

    async def command_edit(self, argument: str) -> None:
        self.action_edit_last()

    async def command_branch(self, argument: str) -> None:
        forks = [part for part in self.transcript.parts if len(part.branches) > 1 and part.is_last]
        if forks:
            self.go_to_branch(forks[-1], 1)
        else:
            self.tell("This conversation has one branch; /edit and /regenerate make more.")

    async def command_system(self, argument: str) -> None:
        if argument:
            self.set_system(argument)
        elif self.backend is None:
            self.tell("Octavo is still starting.")
        else:
            self.ask_system()

    async def command_search(self, argument: str) -> None:
        self.action_search()
        if argument:
            self.sidebar.query_one("#search", Input).value = argument

    async def command_theme(self, argument: str) -> None:
        if not argument:
            self.app.action_change_theme()
        elif argument in self.app.available_themes:
            self.app.theme = argument
        else:
            self.tell(f"There is no theme {argument}; there are {', '.join(sorted(self.app.available_themes))}.")

    async def command_sidebar(self, argument: str) -> None:
        self.action_toggle_sidebar()

    async def command_suspend(self, argument: str) -> None:
        self.app.action_suspend_process()

    async def command_quit(self, argument: str) -> None:
        await self.app.action_quit()

    # Keys

    def action_help(self) -> None:
        from octavo.app.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen())

    async def action_new(self) -> None:
        await self.show_new()

    def action_stop(self) -> None:
        """Esc: stop the answer or the adding of files, else leave what one is in, else back to the input; there it
        stops the reading in the background."""
        if self.completions.display:
            self.completions.offer([])
            self.prompt.is_completing = False
        elif self.stop() or self.stop_adding():
            return
        elif self.editing_id is not None:
            self.stop_editing()
        elif self.has_class("-narrow") and self.sidebar.display:
            self.show_sidebar(False)
        elif not self.prompt.has_focus:
            self.prompt.focus()
        else:
            self.stop_reading()

    async def action_regenerate(self) -> None:
        last = self.transcript.parts[-1].message if self.transcript.parts else None
        if last is None:
            self.tell("There is nothing to answer again yet.")
        else:
            await self.regenerate(last.id)

    def action_edit_last(self) -> None:
        question = self._last("user")
        if question is None:
            self.tell("There is no message to edit yet.")
        else:
            self.start_editing(question)

    def action_rename(self) -> None:
        if self.conversation_id is None:
            self.tell("The conversation has a title once there is a message.")
        else:
            self.ask_rename(self.conversation_id)

    def action_search(self) -> None:
        self.show_sidebar(True)
        self.sidebar.query_one("#search", Input).focus()

    def action_toggle_sidebar(self) -> None:
        show = not self.sidebar.display
        self.show_sidebar(show)
        if show:
            self.sidebar.query_one(ConversationList).focus()
        if not self.has_class("-narrow"):
            self.octavo.remember(sidebar=show)

    def show_sidebar(self, show: bool) -> None:
        self.sidebar.display = show
        if not show and (self.focused is None or self.sidebar in self.focused.ancestors):
            self.prompt.focus()

    def action_models(self) -> None:
        if self.backend is None:
            self.tell("Octavo is still starting.")
            return
        from octavo.app.tui.screens.models import ModelPicker

        self.app.push_screen(ModelPicker(self.backend), lambda model: self.use_model(model) if model else None)

    def action_budgets(self) -> None:
        from octavo.app.tui.screens.budgets import BudgetsScreen

        self.app.push_screen(BudgetsScreen(self.status.figures.model, self.budgets, self.reading))

    def action_inspect(self) -> None:
        from octavo.app.tui.screens.inspecting import InspectionScreen

        if self.backend is None:
            self.tell("Octavo is still starting.")
        elif self.inspecting is None:
            self.inspecting = InspectionScreen(self.octavo.chat)

            def left(_: None) -> None:
                self.inspecting = None

            self.app.push_screen(self.inspecting, left)

    def action_scroll_transcript(self, pages: int) -> None:
        if pages < 0:
            self.transcript.scroll_page_up(animate=False)
        else:
            self.transcript.scroll_page_down(animate=False)

    async def action_scroll_to_start(self) -> None:
        await self.transcript.to_start()

    async def action_scroll_to_end(self) -> None:
        await self.transcript.to_end()

    def action_focus_entry(self, step: int) -> None:
        """From the message that has the focus to the one above or below; below the last is the input."""
        entries = list(self.transcript.entries)
        if not isinstance(self.focused, Entry) or self.focused not in entries:
            return
        place = entries.index(self.focused) + step
        if place >= len(entries):
            self.prompt.focus()
        elif place >= 0:
            entries[place].focus()

    # Messages

    async def entry_action(self, part: Part, action: str) -> None:
        """What a message's keys and buttons ask for."""
        message = part.message
        if action == "copy":
            self.octavo.copy(message.text or self.live_text, "the message")
        elif action == "edit" and message.role == "user":
            self.start_editing(message)
        elif action == "regenerate":
            await self.regenerate(message.id)
        elif action in ("older", "newer"):
            self.go_to_branch(part, -1 if action == "older" else 1)
        elif action == "memories":
            self.show_used(message)
        else:
            self.document_action(message, action)

    def on_code_block_copy_requested(self, event: CodeBlock.CopyRequested) -> None:
        """Copy a code block whole, also where the transcript had to cut it."""
        event.stop()
        entry = event.block.query_ancestor(Entry)
        self.octavo.copy(self._whole_code(entry.part, entry.code_blocks().index(event.block)), "the code")

    def _whole_code(self, part: Part, place: int) -> str:
        from octavo.app.tui.widgets.markdown_view import code_in

        pieces = [item.piece for item in self.transcript.parts if item.message.id == part.message.id]
        index, blocks = part.index, code_in(part.piece.text)
        code = blocks[place]
        start, first = index, place == 0
        while first and pieces[start].cut_start:
            start -= 1
            before = code_in(pieces[start].text)
            code, first = before[-1] + code, len(before) == 1
        end, last = index, place == len(blocks) - 1
        while last and pieces[end].cut_end:
            end += 1
            after = code_in(pieces[end].text)
            code, last = code + after[0], len(after) == 1
        return code

    def _last(self, role: str) -> StoredMessage | None:
        found = [part.message for part in self.transcript.parts if part.message.role == role]
        return found[-1] if found else None
