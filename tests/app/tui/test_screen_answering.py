"""Sending, stopping, editing, regenerating and branching on the screen."""

from __future__ import annotations

import pytest

from octavo.app.assistant.budget import LeftOut
from octavo.app.assistant.engine_events import ModelLoading, PagesForgotten, ProblemsFound
from octavo.app.assistant.forgetting import Forgotten


async def test_a_question_is_sent_streamed_and_saved(start):
    async with start() as run:
        run.engine.answers.append(["Hello ", "**world**, ", "all done."])
        await run.send("Good morning")
        assert "Good morning" in run.text()
        assert "Hello world, all done." in run.text()
        (conversation,) = run.conversations.list()
        assert [message.text for message in run.conversations.path(conversation.id)] == [
            "Good morning",
            "Hello **world**, all done.",
        ]
        assert run.screen.prompt.text == ""
        assert run.screen.top.title_text == "Good morning"


async def test_status_line_has_model_context_speed_and_memory(start):
    async with start() as run:
        await run.send("Hi")
        status = run.rows()[-1]
        for text in ("fake-model", "107/1,000 (11%)", "12.5 tok/s", "Ready"):
            assert text in status


async def test_an_answer_says_where_its_tokens_came_from(start):
    usage = {"reused_from": {"device": 0, "host": 0, "disk": 12_416}, "computed_tokens": 27}
    async with start((80, 24), lambda engine: engine.usage.update(usage)) as run:
        await run.send("Hi")
        (row,) = (number for number, row in enumerate(run.rows()) if "7 tokens · 12.5 tok/s   copy  again" in row)
        assert "12,416 tokens from disk, 27 read again, 0.2 s" in run.rows()[row + 1]


async def test_problems_with_kept_pages_are_notices_in_plain_words(start):
    async with start() as run:
        run.engine.emit(ProblemsFound(("The disk [full] is full.", "A page could not be read.")))
        await run.wait(lambda: "A page could not be read." in run.text(), "the notices")
        assert "The disk [full] is full." in run.text()
        assert [notice.severity for notice in run.app._notifications] == ["warning"] * 2


async def test_problems_that_come_after_the_screen_are_said_on_stderr(start, capsys):
    async with start() as run:
        engine = run.engine
        late = (ProblemsFound(("The last page could not be written.",)), PagesForgotten("x", Forgotten(problem="No.")))
        close = engine.close
        engine.close = lambda: [*map(engine.emit, late), close()]
    assert capsys.readouterr().err == "The last page could not be written.\nNo.\n"


async def test_budgets_are_shown_in_the_figures_of_the_gauge(start):
    async with start() as run:
        await run.send("Hi")
        await run.screen.run_command("/budgets")
        await run.settle()
        for text in (
            "Memory and disk for fake-model",
            "vram auto: 1.24 GB hold [all] of it.",
            "disk auto: up to 64 GB.",
            "In use now: RAM 912M/16.0G.",
        ):
            assert text in " ".join(run.text().replace("│", " ").split())


async def test_budgets_of_no_model(start):
    async with start() as run:
        run.engine.emit(ModelLoading("next"))
        await run.wait(lambda: run.screen.status.figures.model == "next")
        await run.screen.run_command("/budgets")
        await run.settle()
        assert "No model is loaded yet" in run.text()
        assert "vram" not in run.text().replace("settings vram", "")


async def test_escape_stops_and_leaves_the_engine_idle(start):
    """open-webui#1567: Stop must reach the engine, and what came must be kept."""
    async with start() as run:
        run.engine.hold = True
        run.engine.answers.append(["First part. ", "Second part."])
        await run.send("Tell me", until_done=False)
        await run.wait(lambda: "First part." in run.text(), "the first part")
        await run.pilot.press("escape")
        await run.wait(run.engine.is_idle.is_set, "an idle engine")
        await run.wait(lambda: not run.screen.is_busy)
        assert ("cancel",) in run.engine.calls
        assert "stopped" in run.text()
        assert "Second part." not in run.text()
        (conversation,) = run.conversations.list()
        assert run.conversations.path(conversation.id)[-1].text == "First part. "
        run.engine.hold = False
        await run.send("Again")
        assert "Fine." in run.text()


async def test_regenerate_makes_a_branch_one_can_switch(start):
    async with start() as run:
        run.engine.answers.extend([["Red."], ["Blue."]])
        await run.send("A colour?")
        await run.pilot.press("ctrl+r")
        await run.wait(lambda: "Blue." in run.text() and not run.screen.is_busy, "the second answer")
        await run.settle()
        assert "Red." not in run.text()
        assert "2/2" in run.text()
        await run.pilot.press("shift+tab")
        await run.pilot.press("left")
        await run.wait(lambda: "Red." in run.text(), "the first branch")
        await run.settle()
        assert "Blue." not in run.text()
        assert "1/2" in run.text()


async def test_editing_a_message_asks_again_from_there(start):
    async with start() as run:
        run.engine.answers.extend([["One."], ["Two."], ["Three."]])
        await run.send("First question")
        await run.send("Second question")
        await run.pilot.press("ctrl+e")
        assert run.screen.prompt.text == "Second question"
        assert "Editing an earlier message" in run.text()
        run.screen.prompt.set_text("")
        await run.send("Better question")
        assert "Better question" in run.text()
        assert "Three." in run.text()
        assert "Second question" not in run.text()
        assert "One." in run.text()


async def test_escape_leaves_editing(start):
    async with start() as run:
        await run.send("Hm")
        await run.pilot.press("ctrl+e", "escape")
        assert run.screen.editing_id is None
        assert run.screen.prompt.text == ""
        assert "Editing" not in run.text()


async def test_messages_left_out_of_the_prompt_are_dimmed(start):
    """ollama#14259: a history cut that nobody sees."""
    async with start() as run:
        await run.send("Old question")
        first = run.screen.transcript.parts[0].message.id
        run.engine.left_out = (LeftOut(first, 5, "context full"),)
        await run.send("New question")
        dimmed = [entry.part.message.text for entry in run.screen.transcript.entries if entry.has_class("-left-out")]
        assert dimmed == ["Old question"]
        assert "not in the prompt: context full" in run.text()


async def test_a_crash_of_the_engine_keeps_screen_and_text(start):
    """llama.cpp#12120: a partial answer lost on an error."""
    async with start() as run:
        run.engine.crash = True
        run.engine.answers.append(["Half an answer"])
        await run.send("Please")
        await run.settle()
        assert "Half an answer" in run.text()
        assert "broke" in run.text()
        run.engine.crash = False
        await run.send("And now?")
        assert "Fine." in run.text()


async def test_an_answer_goes_on_while_another_conversation_is_read(start):
    async with start() as run:
        run.engine.hold = True
        run.engine.answers.append(["Beginning, ", "end."])
        await run.send("Question", until_done=False)
        await run.wait(lambda: "Beginning," in run.text())
        first = run.screen.conversation_id
        await run.pilot.press("ctrl+n")
        assert "Beginning," not in run.text()
        run.screen.open_conversation(first)
        await run.wait(lambda: "Beginning," in run.text(), "the answer so far")
        run.engine.release()
        await run.wait(lambda: "Beginning, end." in run.text() and not run.screen.is_busy)


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_the_frame_holds_at_common_sizes(start, size):
    async with start(size=size) as run:
        await run.send("Hi")
        assert len(run.rows()) == size[1]
        assert "Fine." in run.text()
        assert "fake-model" in run.rows()[-1]
