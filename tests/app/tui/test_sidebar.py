"""Conversations in the sidebar: listed page by page, searched, opened, renamed, deleted, exported."""

from __future__ import annotations

import json

import pytest
from textual.widgets import Input

from octavo.app.assistant.forgetting import Forgotten, noted
from octavo.app.tui.widgets.sidebar import PAGE, ConversationList
from octavo.storage.paths import Paths


@pytest.fixture
def many(conversations):
    """120 conversations; number 7 holds a word of its own."""
    for number in range(120):
        conversation = conversations.create(f"Conversation {number}")
        text = "a zebra" if number == 7 else "nothing special"
        conversations.add_message(conversation.id, None, "user", text)


@pytest.mark.usefixtures("many")
async def test_pages_come_as_one_scrolls(start):
    async with start() as run:
        listing = run.screen.query_one(ConversationList)
        assert len(listing.conversations) == PAGE
        listing.focus()
        await run.pilot.press("end")
        await run.wait(lambda: len(listing.conversations) == 2 * PAGE, "the second page")
        await run.pilot.press("end")
        await run.wait(lambda: len(listing.conversations) == 120, "the last page")
        titles = [item.title for item in listing.conversations]
        assert titles == [f"Conversation {number}" for number in reversed(range(120))]


@pytest.mark.usefixtures("many")
async def test_enter_opens_the_newest_at_once(start):
    async with start(size=(80, 24)) as run:
        await run.pilot.press("ctrl+b", "enter")
        await run.wait(lambda: run.screen.top.title_text == "Conversation 119", "the conversation")


@pytest.mark.usefixtures("many")
async def test_search_finds_titles_and_messages(start):
    async with start() as run:
        await run.pilot.press("f3", *"zebra")
        listing = run.screen.query_one(ConversationList)
        await run.wait(lambda: [item.title for item in listing.conversations] == ["Conversation 7"], "the hit")
        await run.pilot.press("enter", "enter")
        await run.wait(lambda: "a zebra" in run.text(), "the conversation")
        run.screen.query_one("#search", Input).value = "unicorn"
        await run.wait(lambda: "Nothing found." in run.text())
        run.screen.query_one("#search", Input).value = ""
        await run.wait(lambda: len(listing.conversations) == PAGE)


async def test_rename_by_key_and_by_command(start):
    async with start() as run:
        await run.send("Hello")
        await run.pilot.press("f8")
        await run.settle()
        run.app.screen.query_one("#answer", Input).value = "Named [by] key"
        await run.pilot.press("enter")
        await run.wait(lambda: "Named [by] key" in run.rows()[0])
        await run.screen.run_command("/rename Named by command")
        await run.wait(lambda: run.conversations.list()[0].title == "Named by command")
        await run.settle()
        assert "Named by command" in run.text()


async def test_delete_asks_first(start):
    async with start() as run:
        await run.send("Hello there")
        listing = run.screen.query_one(ConversationList)
        listing.focus()
        await run.pilot.press("delete")
        await run.settle()
        assert "This cannot be undone." in run.text()
        await run.pilot.press("escape")
        assert len(run.conversations.list()) == 1
        await run.pilot.press("delete")
        await run.settle()
        await run.pilot.press("y")
        await run.wait(lambda: not run.conversations.list())
        await run.settle()
        assert "Hello there" not in run.text()
        assert run.screen.conversation_id is None


async def test_what_is_kept_of_a_deleted_conversation_is_forgotten(start):
    paths = Paths.from_environment()
    paths.pages_dir.mkdir(parents=True)
    async with start() as run:
        run.engine.forgotten = Forgotten(disk=12_300_000, memory=4_190_000)
        await run.send("Hello there")
        (conversation,) = run.conversations.list()
        await run.screen.run_command("/delete")
        await run.settle()
        await run.pilot.press("y")
        await run.wait(lambda: ("forget", conversation.id) in run.engine.calls)
        await run.wait(lambda: _notices(run), "the notice")
        (notice,) = _notices(run)
        assert notice.startswith("12.3 MB on disk and 4.19 MB in memory that were kept for what was deleted ")
        assert noted(paths) == [conversation.id], "the note goes with the pages"


async def test_what_cannot_be_forgotten_yet_is_said(start):
    async with start() as run:
        run.engine.forgotten = Forgotten(problem="Pages of what was deleted are still on disk: busy.")
        await run.send("Hello there")
        await run.screen.run_command("/delete")
        await run.settle()
        await run.pilot.press("y")
        await run.wait(lambda: _notices(run), "the notice")
        assert _notices(run) == [run.engine.forgotten.problem]
        assert run.conversations.list() == []


def _notices(run):
    return [notice.message for notice in run.app._notifications]


async def test_the_mouse_opens_a_conversation_and_begins_a_new_one(start):
    async with start() as run:
        await run.send("By mouse")
        await run.pilot.click("#sidebar-buttons", offset=(2, 0))
        await run.settle()
        assert run.screen.conversation_id is None
        await run.pilot.click(ConversationList, offset=(5, 1))
        await run.wait(lambda: run.screen.conversation_id is not None)
        await run.settle()
        assert "Fine." in run.text()


async def test_export_writes_markdown_and_json_and_overwrites_nothing(start, tmp_path):
    async with start() as run:
        await run.send("Export me")
        for name in ("talk.md", "talk.json", "talk.md"):
            await run.screen.run_command(f"/export {tmp_path / name}")
            await run.settle()
        assert "Export me" in (tmp_path / "talk.md").read_text()
        assert "Export me" in json.dumps(json.loads((tmp_path / "talk.json").read_text()))
        assert "is there already" in run.text()


async def test_the_sidebar_lies_over_a_narrow_screen_and_is_remembered_on_a_wide_one(start):
    async with start(size=(80, 24)) as run:
        assert not run.screen.sidebar.display
        await run.pilot.click("#top-menu")
        await run.settle()
        assert run.screen.sidebar.display
        await run.pilot.press("escape")
        assert not run.screen.sidebar.display
        await run.pilot.resize_terminal(120, 30)
        await run.settle()
        assert run.screen.sidebar.display
        await run.pilot.press("ctrl+b")
        assert not run.app.preferences.sidebar
    async with start(size=(120, 30)) as run:
        assert not run.screen.sidebar.display
