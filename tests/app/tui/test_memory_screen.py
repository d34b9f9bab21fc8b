"""The memory on the screen: what cannot be missed, what is decided by a key, and what is undone by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.memory.recall import RECORD
from octavo.app.memory.service import ChatMemory
from octavo.app.memory.telling import holding
from octavo.app.tui.screens.alarm import AlarmScreen
from octavo.app.tui.screens.memories import MemoriesScreen
from octavo.storage.database import Database
from octavo.storage.paths import Paths

ALLERGY, COFFEE = "I'm severely allergic to caffeine", "I like coffee"


class Remembering:
    """The running screen with a memory, and what was said to it."""

    def __init__(self, run: Any, memory: ChatMemory) -> None:
        self.run, self.memory, self.screen = run, memory, run.screen

    async def say(self, text: str) -> None:
        """In a new conversation, as after an answer."""
        await self.run.pilot.press("ctrl+n")
        await self.run.send(text)
        with self.memory.giving_way(self.screen.conversation_id):
            pass
        await self.settle()

    async def settle(self) -> None:
        assert self.memory.wait(20)
        await self.run.settle()
        await self.run.pilot.pause(0.1)
        await self.run.settle()

    @property
    def bar(self) -> Any:
        return self.screen.alarm_bar

    @property
    def texts(self) -> set[str]:
        from octavo.app.memory.recall import today

        return {item.text for item in self.memory.memories.list(day=today().isoformat())}

    def notices(self) -> str:
        return "\n".join(notice.message for notice in self.run.app._notifications)


@pytest.fixture
def remembering(start: Callable[..., Any], database: Database) -> Callable[..., Any]:
    @asynccontextmanager
    async def run(size: tuple[int, int] = (100, 30)) -> AsyncIterator[Remembering]:
        async with start(size=size) as running:
            backend = running.screen.backend
            backend.memory = ChatMemory(
                database, backend.conversations, Paths.from_environment(), "auto", running.screen.events.push
            )
            yield Remembering(running, backend.memory)

    return run


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_the_alarm_stands_until_it_is_decided(remembering: Any, size: tuple[int, int]) -> None:
    async with remembering(size) as now:
        await now.say(ALLERGY)
        assert "Remembered" in now.notices()
        await now.say(COFFEE)

        shown = now.run.text()
        for words in ("does not fit", ALLERGY, COFFEE, "allergy to caffeine", "keep both", "newest wins", "forget one"):
            assert words in shown
        assert now.screen.prompt.has_focus
        await now.run.pilot.press(*"still here")
        assert now.screen.prompt.text == "still here"

        await now.run.pilot.press("f6")
        assert isinstance(now.run.app.screen, AlarmScreen)
        await now.run.pilot.press("escape")
        assert "1 alarm waits" in now.run.text()

        await now.run.pilot.press("f6")
        await now.run.pilot.press("b")
        await now.settle()
        assert not now.bar.display
        assert now.texts == {ALLERGY, COFFEE}
        assert now.memory.memories.conflicts(only_open=True) == []


@pytest.mark.parametrize(("key", "kept"), [("n", {COFFEE}), ("o", {ALLERGY}), ("b", {ALLERGY, COFFEE})])
async def test_each_choice_and_one_key_that_undoes_it(remembering: Any, key: str, kept: set[str]) -> None:
    async with remembering() as now:
        await now.say(ALLERGY)
        await now.say(COFFEE)
        await now.run.pilot.press("f6", key)
        await now.settle()
        assert now.texts == kept
        await now.run.pilot.press("f7")
        await now.settle()
        assert now.texts == {ALLERGY, COFFEE}
        assert now.bar.display


async def test_behind_a_dialog_the_alarm_is_told(remembering: Any) -> None:
    async with remembering() as now:
        now.memory.keeper.add(ALLERGY)
        await now.run.pilot.press("f1")
        now.memory.remember(COFFEE, lambda error: None)
        await now.settle()
        assert "F6 shows it" in now.notices()
        await now.run.pilot.press("escape")
        assert ALLERGY in now.run.text()


async def test_one_side_is_forgotten_after_asking(remembering: Any) -> None:
    async with remembering() as now:
        await now.say(ALLERGY)
        await now.say(COFFEE)
        await now.run.pilot.press("f6", "end", "up", "enter")  # "forget new"
        await now.settle()
        await now.run.pilot.press("y")
        await now.settle()
        assert now.texts == {ALLERGY}
        assert not now.bar.display


async def test_what_replaces_something_is_seen_and_undone(remembering: Any) -> None:
    async with remembering() as now:
        await now.say("I love cheese")
        await now.say("I hate cheese")
        assert "This replaces what you said before" in now.run.text()
        await now.run.pilot.press("f7")
        await now.settle()
        assert now.texts == {"I love cheese"}
        assert not now.bar.display


async def test_a_plain_update_is_told(remembering: Any) -> None:
    async with remembering() as now:
        await now.say("I live in Oslo")
        await now.say("I moved to Lisbon")
        assert "“I live in Oslo” is now “I moved to Lisbon”" in now.notices()
        assert not now.bar.display


async def test_commands(remembering: Any) -> None:
    async with remembering() as now:
        await now.screen.run_command("/remember I play the [cello]")
        await now.settle()
        assert now.texts == {"I play the [cello]"}
        await now.screen.run_command("/remember As I said, I play the [cello]")
        await now.settle()
        assert "remembered already" in now.notices()
        await now.screen.run_command("/remember The kitchen smells of cinnamon.")
        await now.screen.run_command("/remember The kitchen smells of nothing.")
        await now.settle()
        assert "not compared with 1 other, for want of a model" in now.notices()
        await now.run.pilot.press("f7", "f7")
        await now.settle()
        await now.screen.run_command("/remember What is it?")
        await now.settle()
        assert "a question" in now.notices()
        await now.screen.run_command("/memories")
        await now.settle()
        assert isinstance(now.run.app.screen, MemoriesScreen)
        shown = now.run.text()
        assert "[cello]" in shown
        assert "rules only" in shown
        await now.run.pilot.press("d", "y")
        await now.settle()
        assert now.texts == set()
        await now.run.pilot.press("escape")
        await now.screen.run_command("/forget cello")
        await now.settle()
        assert "Nothing is remembered" in now.notices()


async def test_what_was_decided_on_another_screen_alarms_no_more(remembering: Any) -> None:
    async with remembering() as now:
        await now.say("I love cheese")
        await now.say("I hate cheese")
        await now.say(ALLERGY)
        await now.say(COFFEE)
        assert len(now.bar.alarms) == 2
        await now.run.pilot.press("f1")
        now.memory.keeper.undo()
        now.memory.keeper.undo()
        now.memory.keeper.undo()
        await now.run.pilot.press("escape")
        await now.settle()
        assert not now.bar.display


async def test_conflicts_of_an_earlier_run_are_shown(remembering: Any) -> None:
    async with remembering() as now:
        now.memory.keeper.add(ALLERGY)
        now.memory.keeper.add(COFFEE)
        now.screen.load_alarms()
        await now.settle()
        assert ALLERGY in now.run.text()


async def test_an_answer_shows_what_it_was_given_with(remembering: Any) -> None:
    async with remembering() as now:
        (outcome,) = now.memory.keeper.add(ALLERGY)
        await now.run.send("What should I drink?")
        record = {"ids": [outcome.memory.id], "cut": {}, "notes": {}, "tokens": 31, "left_out": {"not relevant": 2}}
        answer = now.screen.transcript.parts[-1].message
        changed = dict(answer.record) | {RECORD: record}
        now.run.conversations.update_message(
            answer.id, text=answer.text, token_ids=(), status="complete", record=changed
        )
        now.screen.open_conversation(answer.conversation_id)
        await now.settle()
        assert "1 memory" in now.run.text()
        now.screen.transcript.entries[-1].focus()
        await now.run.pilot.press("m")
        await now.settle()
        shown = now.run.text()
        for words in (ALLERGY, "31 tokens", "2 left out: not relevant"):
            assert words in shown


@pytest.mark.parametrize("tab", range(1, 7))
async def test_f6_decides_and_f7_undoes_while_the_panel_is_open(remembering: Any, tab: int) -> None:
    async with remembering() as talk:
        await talk.say(f"{COFFEE}.")
        await talk.say(f"{ALLERGY}.")
        assert talk.bar.alarms
        before = talk.texts
        await talk.run.pilot.press("f2")
        await talk.run.wait(lambda: talk.screen.inspecting is not None and talk.screen.inspecting.is_mounted)
        await talk.run.pilot.press(str(tab))
        await talk.settle()
        await talk.run.pilot.press("f6")
        await talk.run.wait(lambda: isinstance(talk.run.app.screen, AlarmScreen))
        await talk.run.pilot.press("n")
        await talk.settle()
        assert talk.run.app.screen is talk.screen.inspecting
        assert not talk.bar.alarms
        assert talk.texts != before
        await talk.run.pilot.press("f7")
        await talk.settle()
        assert talk.texts == before
        assert talk.bar.alarms, "it waits for a decision again"


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (None, None, ""),
        ("2026-11-30", None, "since 2026-11-30"),
        (None, "2026-12-24", "until 2026-12-24"),
        ("2026-11-30", "2026-12-24", "from 2026-11-30 until 2026-12-24"),
    ],
)
def test_when_a_memory_holds_is_said_in_words(first: str | None, last: str | None, said: str) -> None:
    memory = SimpleNamespace(valid_from=first, valid_to=last)
    assert holding(memory) == said
