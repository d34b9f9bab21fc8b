"""Pictures of the main screens. `pytest --snapshot-update` takes new ones; look at them before committing."""

from __future__ import annotations

import pytest

from octavo.app.settings import Settings
from octavo.app.tui.app import OctavoApp
from octavo.app.tui.backend import Backend
from octavo.storage.paths import Paths

ANSWER = """\
Two ways, from **short** to *clear*:

1. A slice.
2. A loop over `reversed(items)`.

```python
def last(items: list[int]) -> int:
    return items[-1]
```

| way | lines |
|---|---|
| slice | 1 |
"""


@pytest.fixture
def app(conversations, fake_engine, monkeypatch):
    """The screen with one conversation open; nothing on it depends on the time or the machine."""
    monkeypatch.setattr("octavo.app.tui.widgets.sidebar.heading_for", lambda updated, today: "Today")
    conversation = conversations.create("How do I take the last item of a list[int]?")
    question = conversations.add_message(conversation.id, None, "user", "How do I take the last item of a list[int]?")
    record = {"usage": {"generated_tokens": 61}, "timings": {"tokens_per_s": 14.2, "ttft_s": 0.3}}
    conversations.add_message(conversation.id, question.id, "assistant", ANSWER, model="fake-model", record=record)
    engine = fake_engine(lambda event: None)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    backend = Backend(Paths.from_environment(), Settings(), conversations, engine, "fake-model", lambda: None)

    def open_backend(on_event):
        engine.emit = on_event
        return backend

    app = OctavoApp(open_backend)
    app.first_conversation = conversation.id
    return app


async def open_first(pilot):
    await pilot.pause()
    screen = pilot.app.chat
    screen.prompt.cursor_blink = False
    for _ in range(200):
        await pilot.pause(0.01)
        if screen.backend is not None and screen.status.figures.limit:
            break
    screen.open_conversation(pilot.app.first_conversation)
    for _ in range(200):
        await pilot.pause(0.01)
        if screen.transcript.parts and not screen.transcript.turn.locked():
            break
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def test_conversation(app, snap_compare):
    assert snap_compare(app, terminal_size=(120, 36), run_before=open_first)


def test_conversation_on_a_small_terminal_in_light_colours(app, snap_compare):
    async def light(pilot):
        pilot.app.theme = "octavo-light"
        await open_first(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=light)


def test_help(app, snap_compare):
    async def help_open(pilot):
        await open_first(pilot)
        await pilot.press("f1")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 40), run_before=help_open)
