"""What is no longer on the screen is no longer in memory, either."""

from __future__ import annotations

import gc
import weakref

from textual.widget import Widget

LONG = "\n\n".join(f"Paragraph {number} of an answer, with **bold** words." for number in range(12))


def watch(widgets) -> list[weakref.ref[object]]:
    """References to widgets and to what they painted."""
    return [weakref.ref(item) for widget in widgets for item in (widget, widget._styles_cache)]


def alive(references: list[weakref.ref[object]]) -> list[object]:
    gc.collect()
    return [item for reference in references if (item := reference()) is not None]


def shown(run) -> list[Widget]:
    return [widget for entry in run.screen.transcript.entries for widget in entry.walk_children(Widget, with_self=True)]


async def test_a_conversation_left_leaves_no_widget_and_no_line(start):
    """textual#6665: a memo of colours kept the lines of the last 1,024 widgets."""
    async with start(size=(80, 24)) as run:
        run.engine.answers += [[LONG], ["Short."]]
        await run.send("A question")
        await run.send("Another one")
        gone = watch(shown(run))
        assert len(gone) > 20
        await run.screen.show_new()
        await run.send("A new conversation")
        await run.settle()
        # Messages on their way hold widgets for a moment more.
        await run.wait(lambda: all(isinstance(item, Widget) for item in alive(gone)), "the lines to go")
        # The last that had the focus or the mouse may be held until something else has it.
        await run.wait(lambda: len(alive(gone)) <= 2, "the widgets to go")
