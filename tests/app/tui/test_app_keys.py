"""Keys and choices of the whole program: quit, palette, help, themes, the frame before anything is open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from textual.widgets import Input

from octavo.app.assistant.history import system_of
from octavo.app.tui.app import OctavoApp
from octavo.app.tui.state import Preferences


async def test_ctrl_c_stops_then_clears_then_quits(start):
    async with start() as run:
        run.engine.hold = True
        await run.send("Long", until_done=False)
        await run.wait(lambda: run.screen.live_id is not None)
        await run.pilot.press("ctrl+c")
        await run.wait(lambda: not run.screen.is_busy)
        run.screen.prompt.insert("typed")
        await run.pilot.press("ctrl+c")
        assert run.screen.prompt.text == ""
        await run.pilot.press("ctrl+c")
        assert run.app.is_running
        await run.pilot.pause()
        assert "Ctrl+C once more to quit." in run.text()
        await run.pilot.press("ctrl+c")
        await run.pilot.pause()
        assert run.app._exit


async def test_ctrl_c_copies_a_selection(start):
    async with start() as run:
        run.screen.prompt.insert("some text")
        run.screen.prompt.select_all()
        await run.pilot.press("ctrl+c")
        assert run.copied == ["some text"]
        assert run.screen.prompt.text == "some text"


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGCONT])
async def test_suspending_waits_for_what_is_being_written(start, number):
    """Textual's handlers write to the terminal; called in the middle of another write, they wait for it for ever."""
    is_writing, called_while_writing = False, []
    before = signal.signal(number, lambda *_: called_while_writing.append(is_writing))
    try:
        async with start() as run:
            is_writing = True
            os.kill(os.getpid(), number)
            assert called_while_writing == []
            is_writing = False
            await run.wait(lambda: called_while_writing == [False])
    finally:
        signal.signal(number, before)


async def test_the_theme_is_remembered(start):
    async with start() as run:
        await run.screen.run_command("/theme octavo-light")
        await run.settle()
        assert run.app.theme == "octavo-light"
        state = run.app._state_file
    assert Preferences.load(state).theme == "octavo-light"
    async with start() as run:
        assert run.app.theme == "octavo-light"


async def test_the_palette_has_every_command(start):
    async with start() as run:
        await run.pilot.press("ctrl+p")
        await run.settle()
        await run.pilot.press(*"regen")
        await run.wait(lambda: "Answer the last question again" in run.text())
        await run.pilot.press("escape")


async def test_help_opens_with_f1_and_closes_with_escape(start):
    async with start(size=(80, 24)) as run:
        await run.pilot.press("f1")
        await run.settle()
        assert "send the message" in run.text()
        await run.pilot.press("escape")
        await run.settle()
        assert "send the message" not in run.text()


async def test_tab_reaches_every_place(start):
    async with start() as run:
        run.engine.answers.append(["```\ncode\n```"])
        await run.send("Hi")
        seen = set()
        for _ in range(8):
            await run.pilot.press("tab")
            seen.add(type(run.app.focused).__name__)
        assert {"PromptInput", "Entry", "CodeBlock", "Input", "ConversationList"} <= seen


async def test_what_cannot_be_opened_ends_the_program_with_its_error(octavo_home):
    error = OSError("no room")

    def fail(on_event: object) -> None:
        raise error

    app = OctavoApp(fail)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        for _ in range(100):
            await pilot.pause(0.01)
            if app.failure is not None:
                break
    assert app.failure is error
    assert app.return_code == 1


def test_the_first_frame_imports_nothing_slow():
    code = (
        "import sys, octavo.app.tui.app, octavo.app.cli.chat\n"
        "slow = {'torch', 'sqlite_utils', 'pydantic', 'transformers', 'markdown_it', 'numpy', 'huggingface_hub'}\n"
        "sys.exit(', '.join(sorted(slow & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_system_prompt_of_a_conversation_is_set_and_seen(start):
    async with start() as run:
        await run.screen.run_command("/system Be brief [x].")
        await run.send("Hello")
        (conversation,) = run.conversations.list()
        assert system_of(run.conversations.path(conversation.id), "default") == "Be brief [x]."
        await run.screen.run_command("/system")
        await run.wait(lambda: "System prompt of this conversation" in run.text())
        assert "Be brief [x]." in run.text()
        run.app.screen.query_one("#answer", Input).value = "Be kind."
        await run.pilot.press("enter")
        await run.wait(lambda: system_of(run.conversations.path(conversation.id), "") == "Be kind.")
        await run.pilot.press("ctrl+n")
        await run.send("Another")
        assert system_of(run.conversations.path(run.screen.conversation_id), "default") == "default"
