"""Messages sent while an answer is being written: they wait, are seen to wait, and never go out by surprise."""

from __future__ import annotations

from octavo.app.assistant.engine_events import TurnFailed


def asked(run) -> list[str]:
    return [call[2] for call in run.engine.calls if call[0] == "turn"]


async def begin(run) -> None:
    run.engine.hold = True
    run.engine.answers.append(["Part one. ", "Part two."])
    await run.send("One", until_done=False)
    await run.wait(lambda: "Part one." in run.text())


async def test_they_go_out_in_order_when_the_answer_has_ended(start):
    async with start() as run:
        await begin(run)
        await run.send("Two [x]", until_done=False)
        await run.send("Three", until_done=False)
        assert run.screen.prompt.text == ""
        assert "▸ Two [x]" in run.text()
        assert "▸ Three" in run.text()
        assert asked(run) == ["One"]
        run.engine.hold = False
        run.engine.release()
        await run.wait(lambda: asked(run) == ["One", "Two [x]", "Three"] and not run.screen.is_busy)
        await run.settle()
        assert "▸" not in run.text()
        (conversation,) = run.conversations.list()
        texts = [message.text for message in run.conversations.path(conversation.id)]
        assert texts == ["One", "Part one. Part two.", "Two [x]", "Fine.", "Three", "Fine."]


async def test_escape_puts_them_back_into_the_input(start):
    async with start() as run:
        await begin(run)
        await run.send("Two", until_done=False)
        await run.send("Three", until_done=False)
        run.screen.prompt.insert("typed")
        await run.pilot.press("escape")
        await run.wait(lambda: not run.screen.is_busy)
        await run.settle()
        assert run.screen.prompt.text == "Two\n\nThree\n\ntyped"
        assert asked(run) == ["One"]


async def test_a_click_and_an_error_put_them_back_too(start):
    async with start() as run:
        await begin(run)
        await run.send("Two", until_done=False)
        await run.pilot.click("#waiting", offset=(4, 1))
        await run.settle()
        assert run.screen.prompt.text == "Two"
        await run.pilot.press("enter")
        assert run.screen.prompt.text == ""
        run.engine.emit(TurnFailed("The disk is full."))
        await run.wait(lambda: run.screen.prompt.text == "Two")


async def test_they_stay_with_their_conversation(start):
    async with start() as run:
        await begin(run)
        first = run.screen.conversation_id
        await run.send("For the first", until_done=False)
        await run.pilot.press("ctrl+n")
        await run.send("For a new one", until_done=False)
        await run.send("And once more", until_done=False)
        run.engine.hold = False
        run.engine.release()
        await run.wait(lambda: len(asked(run)) == 4 and not run.screen.is_busy)
        await run.settle()
        assert [message.text for message in run.conversations.path(first)][2:] == ["For the first", "Fine."]
        assert run.screen.conversation_id != first
        texts = [message.text for message in run.conversations.path(run.screen.conversation_id)]
        assert texts == ["For a new one", "Fine.", "And once more", "Fine."]
        assert "For the first" not in "\n".join(row[31:] for row in run.rows())


async def test_a_message_is_not_edited_while_an_answer_is_written(start):
    async with start() as run:
        await begin(run)
        await run.pilot.press("ctrl+e")
        await run.settle()
        assert run.screen.editing_id is None
        assert "An answer is being written" in run.text()
