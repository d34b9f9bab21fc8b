"""What stands above the input, all at once: the input stays on the screen, and some of the conversation, too."""

from __future__ import annotations

import pytest

from octavo.app.tui.widgets.alarm_bar import Alarm, AlarmBar
from octavo.app.tui.widgets.documents_bar import DocumentsBar

LONG = "I am allergic to nuts, and to everything that was made where nuts are roasted, ground or packed. " * 3


def alarm(kind: str) -> Alarm:
    return Alarm(kind, "1", "contradiction", LONG, "2026-11-29", LONG, LONG[:140], "rules and a model")


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
@pytest.mark.parametrize("kind", ["conflict", "correction"])
@pytest.mark.parametrize("typing", ["", "/", "a\n" * 20])
async def test_everything_at_once_leaves_the_input_and_the_conversation(start, size, kind, typing):
    async with start(size=size) as run:
        await run.send("Hello")
        run.engine.hold = True
        run.engine.answers.append(["One ", "two."])
        await run.send("Go on", until_done=False)
        for number in range(3):
            await run.send(f"waiting {number}", until_done=False)
        run.screen.query_one(DocumentsBar).change(names=("a.pdf",), num_documents=1, work="Reading files, 1 of 3")
        run.screen.query_one(AlarmBar).show([alarm(kind)])
        run.screen.prompt.focus()
        run.screen.prompt.insert(typing)
        await run.wait(lambda: run.screen.completions.display == (typing == "/"))
        await run.settle()
        area = run.app.size.region
        for widget in (run.screen.prompt, run.screen.status, run.screen.query_one("#gauge")):
            assert area.contains_region(widget.region), widget
        assert run.screen.transcript.region.height >= 2
        for words in ("This does not fit" if kind == "conflict" else "This replaces", "before", "now", "because", "F6"):
            assert words in run.text()
        assert "▸ waiting 0" in run.text()
        run.engine.hold = False
        run.engine.release()
        await run.wait(lambda: not run.screen.is_busy and not run.screen.waiting.messages)
