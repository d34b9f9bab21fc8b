"""The memory on the main screen: its commands, its alarms, and what an answer was given with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from octavo.app.tui.messages import Failed
from octavo.app.tui.screens.answering import Answering
from octavo.app.tui.text import one_line
from octavo.app.tui.widgets.alarm_bar import Alarm, AlarmBar

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper, Outcome
    from octavo.app.memory.service import ChatMemory, MemoryNews
    from octavo.app.tui.screens.memories import Row
    from octavo.storage.memory_records import Correction
    from octavo.storage.records import StoredMessage

_KEPT = {
    "both": "Both are kept. F7 undoes it.",
    "new": "The newest holds from now on. F7 undoes it.",
    "old": "What you said before still holds. F7 undoes it.",
}


class Remembering(Answering):
    """Everything runs in threads: a check may wait for the database."""

    @property
    def memory(self) -> ChatMemory | None:
        """The memory; None, with a notice, while Octavo is starting."""
        found = self.backend.memory if self.backend is not None else None
        if found is None:
            self.tell("Octavo is still starting." if self.backend is None else "There is no memory here.")
        return found

    @property
    def alarm_bar(self) -> AlarmBar:
        return self.query_one("#alarm", AlarmBar)

    # Commands

    async def command_remember(self, argument: str) -> None:
        if not argument:
            self.tell("Say what to remember, as in /remember I'm allergic to nuts.")
        elif (memory := self.memory) is not None:
            if self.is_busy:
                self.tell("It is remembered as soon as this answer has ended.")
            memory.remember(argument, lambda error: self.post_message(Failed(error)))

    async def command_forget(self, argument: str) -> None:
        from octavo.app.memory.slash import find_one

        if not argument:
            await self.command_memories("")
        elif (memory := self.memory) is not None:
            keeper = memory.keeper
            self.in_thread(
                lambda: find_one(keeper, argument),
                lambda found: self._ask_forget(keeper, found.id, found.text),
            )

    async def command_memories(self, argument: str) -> None:
        if (memory := self.memory) is not None:
            from octavo.app.tui.memory_rows import memory_rows, state_notes

            title = f"Memories that “{one_line(argument, 40)}” finds" if argument else "What Octavo remembers"
            self.in_thread(
                lambda: (memory_rows(memory.keeper, argument), state_notes(memory)),
                lambda found: self._show_memories(title, *found),
            )

    async def command_conflicts(self, argument: str) -> None:
        self.action_alarms()

    async def command_undo(self, argument: str) -> None:
        self.action_undo_memory()

    # Keys

    def action_alarms(self) -> None:
        """F6: the alarm that waits, or the memories."""
        from octavo.app.tui.screens.alarm import AlarmScreen

        if self.alarm_bar.alarms:
            alarm = self.alarm_bar.alarms[0]
            self.app.push_screen(AlarmScreen(alarm), lambda choice: self.decide(alarm, choice or "later"))
        elif self.backend is not None:
            self.tell("Nothing in the memory waits for a decision; /memories shows what is remembered.")

    def action_undo_memory(self) -> None:
        """F7: take back the last correction, decision or memory."""
        if (memory := self.memory) is not None:
            keeper = memory.keeper

            def undone(line: Correction) -> None:
                self.tell(f"Undone: {line.reason}" + (f" (“{one_line(line.evidence, 60)}”)" if line.evidence else ""))
                self._settle_corrections(str(line.seq))

            self.in_thread(keeper.undo, undone)

    # Alarms

    async def engine_event(self, event: Any) -> None:
        """Take one event of the engine, or of the memory."""
        from octavo.app.memory.service import MemoryFailed, MemoryNews

        if isinstance(event, MemoryNews):
            self._take_news_of_memory(event)
        elif isinstance(event, MemoryFailed):
            self.tell(event.error, severity="warning")
        else:
            await super().engine_event(event)

    def load_alarms(self) -> None:
        """Show the conflicts that wait, and the corrections shown that still stand."""
        if self.backend is None or self.backend.memory is None:
            return
        from octavo.app.tui.memory_rows import open_alarms

        keeper, shown = self.backend.memory.keeper, self.alarm_bar.alarms
        self.in_thread(lambda: open_alarms(keeper, shown), self.alarm_bar.show, group="alarms")
        if self.inspecting is not None and self.inspecting.is_mounted:
            self.inspecting.memory_changed()

    def on_screen_resume(self) -> None:
        """What was decided on another screen is decided here, too."""
        self.load_alarms()
        self.transcript.call_after_refresh(self.transcript.fill)

    def _take_news_of_memory(self, news: MemoryNews) -> None:
        from octavo.app.tui.memory_rows import correction_alarm

        new = [outcome for outcome in news.outcomes if outcome.correction is not None]
        alarms = [alarm for outcome in new if (alarm := correction_alarm(outcome)) is not None]
        if alarms:
            self.alarm_bar.show([*alarms, *self.alarm_bar.alarms])
        waits = any(outcome.check.verdict == "tension" or outcome.check.finding.confirm for outcome in new)
        if waits:
            self.load_alarms()
        if alarms or waits:
            self.app.bell()
            if self.app.screen is self:
                self.app.clear_notifications()  # they would lie over the alarm
            else:
                where = "" if self.app.screen is self.inspecting else "in the chat "
                self.tell(
                    f"Something you said does not fit what is remembered; {where}F6 shows it.", severity="warning"
                )
        added = [outcome for outcome in new if outcome.correction is not None and outcome.correction.kind == "add"]
        if added:
            self.tell(f"Remembered: {_quoted(added)} (F7 takes it back){_unread(added)}")
        elif not news.conversation_id and all(outcome.check.verdict == "duplicate" for outcome in news.outcomes):
            self.tell("That is remembered already.")
        self.tell_updates(new)

    def tell_updates(self, outcomes: list[Outcome]) -> None:
        """Say which plain values changed."""
        for outcome in outcomes:
            if outcome.check.verdict == "update" and not outcome.check.finding.confirm:
                old = next((met.memory.text for met in outcome.check.with_verdict("update")), "")
                self.tell(f"“{one_line(old, 60)}” is now “{one_line(outcome.check.text, 60)}” (F7 undoes it)")

    def decide(self, alarm: Alarm, choice: str) -> None:
        """Do what was chosen about an alarm."""
        if choice == "later":
            self.alarm_bar.show(self.alarm_bar.alarms, small=True)
        elif choice == "forget":
            self.action_alarms()
        elif choice == "ok":
            self._settle_corrections(alarm.key)
        elif (memory := self.memory) is not None:
            self._decide_in(memory.keeper, alarm, choice)

    def _decide_in(self, keeper: Keeper, alarm: Alarm, choice: str) -> None:
        from octavo.app.memory.deciding import decide
        from octavo.app.tui.memory_rows import side

        if choice == "undo":
            self.in_thread(lambda: keeper.undo(int(alarm.key)), lambda _: self._settle_corrections(alarm.key))
        elif choice.startswith("forget"):
            which = choice.removeprefix("forget ")
            self.in_thread(
                lambda: side(keeper, alarm, which), lambda found: self._ask_forget(keeper, found.id, found.text)
            )
        else:
            self.in_thread(lambda: decide(keeper, alarm.key, choice), lambda _: self._decided(choice))

    def _decided(self, choice: str) -> None:
        self.tell(_KEPT[choice])
        self.load_alarms()

    def _settle_corrections(self, key: str) -> None:
        """A correction was agreed to, or undone."""
        self.alarm_bar.show([alarm for alarm in self.alarm_bar.alarms if alarm.key != key])
        self.load_alarms()

    # Forgetting and looking

    def _ask_forget(self, keeper: Keeper, memory_id: str, text: str) -> None:
        from octavo.app.tui.screens.dialogs import Confirm

        detail = f"“{one_line(text)}” is deleted for good, and is not picked up again from old messages."
        self.app.push_screen(
            Confirm("Forget this memory?", detail, yes="Forget"),
            lambda yes: self.forget_memory(memory_id) if yes else None,
        )

    def forget_memory(self, memory_id: str) -> None:
        """Delete a memory for good."""
        if (memory := self.memory) is not None:
            keeper = memory.keeper

            def forgotten(_: object) -> None:
                self.tell("It is forgotten.")
                self.load_alarms()

            self.in_thread(lambda: keeper.forget(memory_id), forgotten)

    def show_used(self, message: StoredMessage) -> None:
        """The memories that a message was asked or answered with."""
        if (memory := self.memory) is not None:
            from octavo.app.tui.memory_rows import used_rows

            self.in_thread(
                lambda: used_rows(memory, message),
                lambda found: self._show_memories("Memories this answer was given with", *found),
            )

    def _show_memories(self, title: str, rows: list[Row], notes: list[str]) -> None:
        from octavo.app.tui.screens.memories import MemoriesScreen

        forget: Callable[[str], None] = self.forget_memory
        self.app.push_screen(MemoriesScreen(title, rows, notes, forget))


def _unread(outcomes: list[Outcome]) -> str:
    """How many memories nobody compared these with: no rule decides, and no model reads them."""
    number = sum(outcome.check.num_unread for outcome in outcomes)
    return f"; not compared with {number} other{'s' * (number != 1)}, for want of a model" if number else ""


def _quoted(outcomes: list[Outcome]) -> str:
    texts = list(dict.fromkeys(f"“{one_line(outcome.check.text, 80)}”" for outcome in outcomes))
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
