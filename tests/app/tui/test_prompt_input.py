"""The input: lines, history, pastes and the list of commands."""

from __future__ import annotations

from textual import events

from octavo.app.tui import commands


async def test_enter_sends_and_ctrl_j_breaks_the_line(start):
    async with start() as run:
        await run.pilot.press("a", "ctrl+j", "b")
        assert run.screen.prompt.text == "a\nb"
        assert run.screen.prompt.size.height == 2
        await run.pilot.press("enter")
        await run.wait(lambda: not run.screen.is_busy and run.engine.calls[-1][0] == "turn")
        assert run.engine.calls[-1][2] == "a\nb"


async def test_an_empty_input_is_not_sent(start):
    async with start() as run:
        await run.pilot.press("space", "enter")
        assert [call[0] for call in run.engine.calls] == ["load"]


async def test_up_recalls_what_was_sent_and_down_returns_to_the_draft(start):
    async with start() as run:
        await run.send("first")
        await run.send("second")
        run.screen.prompt.insert("draft")
        await run.pilot.press("up")
        assert run.screen.prompt.text == "second"
        await run.pilot.press("up")
        assert run.screen.prompt.text == "first"
        await run.pilot.press("down", "down")
        assert run.screen.prompt.text == "draft"


async def test_a_paste_of_200_kb_arrives_whole(start):
    async with start() as run:
        text = "".join(f"{number:05d} pasted [line] 日本語\n" for number in range(7_000))
        assert len(text.encode()) > 200_000
        run.app.post_message(events.Paste(text.replace("\n", "\r")))
        await run.wait(lambda: run.screen.prompt.text)
        assert run.screen.prompt.text == "[Pasted #1, 7,000 lines]"
        await run.send(" What is it?")
        assert run.engine.calls[-1][2] == text + " What is it?"
        assert "7,001 lines" in run.text()


async def test_a_chip_is_deleted_as_one(start):
    async with start() as run:
        run.screen.prompt.insert_paste("long\n" * 100)
        await run.pilot.press("backspace")
        assert run.screen.prompt.text == ""


async def test_commands_are_offered_and_taken(start):
    async with start() as run:
        await run.pilot.press("slash", "e")
        assert run.screen.completions.display
        assert "/export" in run.text()
        await run.pilot.press("down", "tab")
        assert run.screen.prompt.text == "/edit "
        assert not run.screen.completions.display
        await run.pilot.press("escape")


async def test_a_command_that_needs_an_argument_waits_for_it(start):
    async with start() as run:
        for command in commands.COMMANDS:
            run.screen.prompt.set_text("")
            if command.needs_argument:
                await run.pilot.press("slash", *command.name, "enter")
                assert run.screen.prompt.text == f"/{command.name} "
        assert [command.name for command in commands.COMMANDS if command.needs_argument] == ["remember"]


async def test_a_command_is_chosen_with_enter_or_a_click(start):
    async with start() as run:
        await run.pilot.press("slash", "h", "e", "enter")
        await run.settle()
        assert "Keys and commands" in run.text()
        await run.pilot.press("escape")
        await run.pilot.press("slash", "h", "e")
        await run.pilot.click("#completions", offset=(3, 0))
        await run.settle()
        assert "Keys and commands" in run.text()


async def test_an_unknown_command_is_not_sent(start):
    async with start() as run:
        run.screen.prompt.insert("/nonsense")
        await run.pilot.press("enter")
        await run.settle()
        assert "There is no command /nonsense" in run.text()
        assert run.screen.prompt.text == "/nonsense"


async def test_what_is_sent_before_all_is_open_goes_out_later(start, monkeypatch):
    async with start() as run:
        backend, run.screen.backend = run.screen.backend, None
        run.screen.prompt.insert("early")
        await run.pilot.press("enter")
        assert run.screen.unsent == "early"
        await run.screen._opened(backend)
        await run.wait(lambda: ("turn" in [call[0] for call in run.engine.calls]) and not run.screen.is_busy)
        assert run.engine.calls[-1][2] == "early"
