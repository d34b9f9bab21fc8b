"""The inspection panel by keyboard: each tab shows what is stored and held, and changes it where it says so."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from octavo.app.assistant.engine_events import PagesForgotten
from octavo.app.assistant.forgetting import Forgotten
from octavo.app.assistant.watch import Look, PagesShown
from octavo.app.errors import AppError
from octavo.app.memory.service import ChatMemory
from octavo.app.tui.answer_text import answer_content, chosen_pages
from octavo.app.tui.plots import parts_bar, sparkline
from octavo.app.tui.widgets.timings_tab import timings_content
from octavo.engine.inspection import PageDetail, PageMap
from octavo.storage.pages import open_store
from octavo.storage.paths import Paths

RECORD = {
    "usage": {
        "prompt_tokens": 3100, "reused_tokens": 2048, "computed_tokens": 1052, "generated_tokens": 61,
        "reused_from": {"device": 2048, "host": 0, "disk": 0},
    },
    "timings": {
        "queue_s": 0.001, "prefill_s": 1.2, "ttft_s": 1.25, "itl_p50_ms": 16.1, "itl_p95_ms": 21.0, "itl_p99_ms": 30.5,
        "tokens_per_s": 58.2, "e2e_s": 2.4,
    },
    "window": {"context": 8192, "reserve": 1024, "margin": 16, "prompt_tokens": 3100, "kept_from": "x"},
    "left_out": [{"first_id": "a", "last_id": "b", "reason": "context full", "messages": 6, "tokens": 2100}],
    "pages": {
        "total": 97, "page_size": 32, "device": 90, "host": 5, "disk": 2, "dense": False, "window": 32,
        "num_chosen": 40, "chosen": [[5, 120], [17, 88]],
    },
    "finish_reason": "stop",
}  # fmt: skip


def page_map(num_pages=97, layers=30, *, running=True):
    """So many complete pages, and an unfinished one of 5 tokens."""
    shape = (layers, num_pages + 1)
    tier = np.full(shape, 3, np.uint8)
    tier[:, 20:40], tier[:, -1] = 2, 4 if running else 0
    numbers = np.arange(shape[0] * shape[1]).reshape(shape)
    chosen = np.zeros(shape, np.bool_)
    return PageMap(
        num_pages * 32 + 5, 32, tier, numbers, numbers % 7, numbers.astype(np.float32) / numbers.size, chosen, 8, 4, 16,
        "k8v4", is_running=running, tail_tokens=5,
    )  # fmt: skip


@pytest.fixture
def answered(conversations):
    """A conversation with one answer; its title and texts have brackets."""
    conversation = conversations.create("Where is the [lake]?")
    question = conversations.add_message(conversation.id, None, "user", "Where is the [lake]?")
    conversations.add_message(conversation.id, question.id, "assistant", "North [S1].", model="m", record=RECORD)
    return conversation.id


def pages_of(engine, looks, owners=(), *, running=True):
    """Let the engine answer every look with the same map."""

    def look(asked: Look) -> None:
        looks.append(asked)
        page = asked.page or 0
        detail = PageDetail(page, tuple(range(5 if page == 97 else 32)), "ab" * 32, owners, "prefill")
        texts = tuple((place, f"text of page {place} [x]") for place in asked.pages)
        engine.emit(PagesShown(asked, page_map(running=running), detail, f"the [text] of page {asked.page}", texts))

    engine.watch.look = look


async def open_panel(run, conversation_id, tab="1"):
    run.screen.open_conversation(conversation_id)
    await run.wait(lambda: run.screen.conversation_id == conversation_id, "the conversation")
    await run.pilot.press("f2")
    await run.wait(lambda: run.screen.inspecting is not None and run.app.screen is run.screen.inspecting, "the panel")
    await run.pilot.pause()
    await run.pilot.press(tab)


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_pages_are_shown_and_the_cursor_tells_what_is_in_them(start, answered, size):
    looks = []
    async with start(size=size, prepare=lambda engine: pages_of(engine, looks)) as run:
        await open_panel(run, answered)
        await run.wait(lambda: "3,109 tokens, 97 pages of 32" in run.text())
        assert "5 tokens on one being filled (16 bits)" in run.text()
        assert "77 on the device, 20 below" in run.text()
        assert "RAM " in run.text(), "the gauge stays"
        await run.pilot.press("plus", "plus", "right", "right")
        await run.wait(lambda: "Page 3 of 98, tokens 65-96" in run.text())
        assert looks[-1].page == 2
        assert "30 layers on the device" in run.text()
        await run.pilot.press("m")
        await run.wait(lambda: "last use of 30 layers" in run.text())
        before = len(looks)
        await run.wait(lambda: len(looks) > before, "it is live")
        await run.pilot.press("escape")
        await run.wait(lambda: run.screen.inspecting is None)
        assert run.app.screen is run.screen


@pytest.mark.parametrize("running", [True, False])
async def test_the_unfinished_page_has_a_cell_and_says_how_full_it_is(start, answered, running):
    async with start(size=(120, 44), prepare=lambda engine: pages_of(engine, [], running=running)) as run:
        await open_panel(run, answered)
        await run.wait(lambda: "97 pages of 32" in run.text())
        await run.pilot.press("plus", "plus", "end")
        await run.wait(lambda: "Page 98 of 98, tokens 3,105-3,109" in run.text())
        assert f"unfinished: 5 of its 32 tokens{' so far, kept' if running else '; not kept'}" in run.text()
        assert (run.text().count("▚") >= 29) == running, "a cell for each layer, but for the cursor's"


async def test_owners_are_called_by_the_names_a_person_knows(start, answered, conversations):
    other = conversations.create("Another [one]").id
    owners = ("", answered, "document:gone", "deleted-long-ago", other)
    async with start(size=(200, 44), prepare=lambda engine: pages_of(engine, [], owners)) as run:
        await open_panel(run, answered)
        await run.wait(lambda: "Another [one]" in run.text())
        text = " ".join(line.rpartition("│")[2].strip() for line in run.rows())
        assert "this conversation, a removed document, a deleted conversation" in text
        assert "a question without a conversation" in text
        assert answered[:8] not in text


async def test_a_covered_chat_paints_nothing(start, answered):
    """For Textual the screen below an opaque one can be seen, and whatever changes in it paints all of both."""
    async with start(size=(80, 24), prepare=lambda engine: pages_of(engine, [])) as run:
        await open_panel(run, answered)
        await run.wait(lambda: "97 pages of 32" in run.text())
        panel, whole = run.screen.inspecting, []
        full = panel._compositor.render_full_update
        panel._compositor.render_full_update = lambda *args, **options: whole.append(1) or full(*args, **options)
        for number in range(5):
            run.screen.status.change(state=f"State {number}")
            await run.screen.transcript.stream(f"word {number}\n\n")
            await run.pilot.pause(0.05)
        assert not whole
        assert not run.screen.is_current
        await run.pilot.press("escape")
        await run.wait(lambda: "State 4" in run.text(), "what changed meanwhile")
        assert "word 4" in run.text()
        assert run.screen.is_current


async def test_a_long_answer_is_written_behind_the_panel(start, answered):
    async with start(size=(80, 24), prepare=lambda engine: pages_of(engine, [])) as run:
        await open_panel(run, answered)
        run.engine.answers.append([f"Paragraph {number}.\n\n- a\n- b\n\n" for number in range(150)])
        await run.screen.send("A long one, please")
        for key in ("plus", "right", "m", "2", "1", "end") * 3:
            await run.pilot.press(key)
        await run.wait(lambda: not run.screen.is_busy, "the end of the answer")
        await run.pilot.press("escape")
        await run.wait(lambda: "Paragraph 149." in run.text(), "its end is in sight")
        assert run.screen.transcript.has_end


async def test_it_says_where_there_is_nothing_to_show(start, answered):
    async with start(size=(80, 24)) as run:
        await run.pilot.press("f2")
        await run.wait(lambda: "No conversation is open" in run.text())
        await run.pilot.press("2")
        await run.wait(lambda: "No conversation is open." in run.text())
        await run.pilot.press("3")
        await run.wait(lambda: "There is no memory in this process." in run.text())
        await run.pilot.press("4")
        await run.wait(lambda: "Nothing is kept on disk" in run.text())
        await run.pilot.press("6")
        await run.wait(lambda: "The model cannot be looked at" in run.text())


async def test_an_answer_shows_its_budget_its_pages_and_what_was_left_out(start, answered):
    looks = []
    async with start(size=(100, 44), prepare=lambda engine: pages_of(engine, looks)) as run:
        await open_panel(run, answered, "2")
        await run.wait(lambda: "text of page 17 [x]" in run.text())
        asked = next(look for look in looks if look.message_id)
        assert asked.pages == (5, 17)
        text = run.text()
        assert "found 2,048" in text
        assert "kept for it 963" in text
        assert "90 on the device, 5 in RAM, 2 on disk" in text
        assert "6 messages, 2,100 tokens: context full" in text


async def test_what_the_panel_shows_of_answers_follows_the_answer_being_written(start, answered):
    async with start(size=(100, 44)) as run:
        await open_panel(run, answered, "2")
        await run.wait(lambda: "answer 61" in run.text(), "the answer there was")
        run.engine.hold = True
        run.engine.answers.append(["One ", "two."])
        await run.screen.send("Go on")
        await run.wait(lambda: "when the answer has ended" in run.text(), "the new one, while it is written")
        record = {"window": {**RECORD["window"], "prompt_tokens": 40}}
        run.conversations.update_message(
            run.screen.live_id, text="One ", token_ids=(), status="streaming", record=record
        )
        run.screen.inspecting.look_again()
        run.screen.status.change(used=47)
        await run.wait(lambda: "answer 7 " in run.text(), "what there is of it")
        run.screen.status.change(used=49)
        await run.wait(lambda: "answer 9 " in run.text(), "its growth")
        assert "kept for it 1,015" in run.text()
        await run.pilot.press("5")
        await run.wait(lambda: "1 answer," in run.text())
        run.engine.hold = False
        run.engine.release()
        await run.wait(lambda: not run.screen.is_busy)
        await run.wait(lambda: "2 answers," in run.text(), "its timings")
        await run.pilot.press("2", "down")
        await run.wait(lambda: "answer 61" in run.text(), "the older one")
        await run.screen.send("And on")
        await run.wait(lambda: not run.screen.is_busy)
        await run.settle()
        assert "answer 61" in run.text(), "an answer that was chosen stays"


async def test_timings_are_plotted(start, answered):
    async with start(size=(80, 24)) as run:
        await open_panel(run, answered, "5")
        await run.wait(lambda: "between, p99" in run.text())
        assert "newest 30.5" in run.text()


async def test_memory_is_searched_and_a_line_of_the_log_undone(start, answered, database, conversations):
    memory = ChatMemory(database, conversations, Paths.from_environment(), "manual")
    try:
        memory.keeper.add("I live in Basel.")
        memory.keeper.add("I have a dog named Rex [the first].")
        async with start(size=(100, 40)) as run:
            run.screen.backend.memory = memory
            await open_panel(run, answered, "3")
            await run.wait(lambda: "I live in Basel." in run.text())
            assert "Rex [the first]" in run.text()
            assert "Log of corrections" in run.text()
            await run.pilot.press("slash", *"dog", "enter")
            await run.wait(lambda: "Basel" not in run.text())
            await run.pilot.press("f", "y")
            await run.wait(lambda: not memory.keeper.memories.search("dog", None, 5))
            await run.pilot.press("slash", "backspace", "backspace", "backspace", "enter")
            await run.wait(lambda: "Log of corrections" in run.text())
            await run.pilot.press("end", "u")
            await run.wait(lambda: not memory.keeper.memories.list())
    finally:
        memory.close()


async def test_forgetting_in_the_store_gives_the_bytes_back(start, answered):
    paths = Paths.from_environment()

    def page(number):
        return SimpleNamespace(
            identity=bytes([number]) * 32,
            parent=bytes([number - 1]) * 32,
            token_ids=tuple(range(32)),
            owner=answered,
            origin="prefill",
            data=memoryview(bytes(4 << 20)),
        )

    with open_store(paths.pages_dir, 1 << 30) as store:
        space = store.open_space(bytes(32), {}, 4, 1 << 20, 32)
        assert space.write([page(number) for number in range(1, 80)]) == [None] * 79

    def forgetting(engine):
        def forget(owner):
            engine.calls.append(("forget", owner))
            with open_store(paths.pages_dir, None) as store:
                engine.emit(PagesForgotten(owner, Forgotten(store.forget(owner))))

        engine.forget = forget

    async with start(size=(110, 30), prepare=forgetting) as run:
        await open_panel(run, answered, "4")
        await run.wait(lambda: "79 pages, 332 MB" in run.text())
        assert "Where is the [lake]?" in run.text()
        await run.pilot.press("f")
        await run.wait(lambda: "Forget these pages?" in run.text())
        assert "that others share" not in run.text(), "there are none"
        await run.pilot.press("y")
        await run.wait(lambda: "0 pages, 0 B; 332 MB came back" in run.text(), "the bytes")
        assert ("forget", answered) in run.engine.calls


async def test_what_is_pinned_is_said_and_changed(start, answered):
    paths = Paths.from_environment()
    with open_store(paths.pages_dir, 1 << 30) as store:
        page = SimpleNamespace(
            identity=b"1" * 32, parent=b"0" * 32, token_ids=tuple(range(32)), owner=answered, origin="prefill",
            data=memoryview(bytes(4 << 10)),
        )  # fmt: skip
        assert store.open_space(bytes(32), {}, 1, 4 << 10, 32).write([page]) == [None]
    async with start(size=(80, 24)) as run:
        await open_panel(run, answered, "4")
        await run.wait(lambda: "Where is the [lake]?" in run.text())

        def rows():
            return [line for line in run.rows() if "Where is" in line]

        assert [" pinned " in line for line in rows()] == [False]
        await run.pilot.press("p")
        await run.wait(lambda: rows() and " pinned " in rows()[0], "the pin")
        with open_store(paths.pages_dir, None) as run.screen.backend.engine.watch.store:
            await run.pilot.press("p")
            await run.wait(lambda: rows() and " pinned " not in rows()[0], "through the store that is open already")


async def test_tabs_chosen_in_a_hurry_end_at_the_last_one(start, answered):
    async with start(size=(80, 24), prepare=lambda engine: pages_of(engine, [])) as run:
        await open_panel(run, answered)
        await run.pilot.press("2", "3", "4", "5", "6", "1", "2", "5")
        await run.wait(lambda: "between, p99" in run.text())
        await run.pilot.pause(0.3)
        assert "between, p99" in run.text()


async def test_a_focus_that_comes_late_does_not_bring_its_tab_back(start, answered):
    """The panel focuses its first tab when that is painted; by then another may have been chosen."""
    async with start(prepare=lambda engine: pages_of(engine, [])) as run:
        await open_panel(run, answered)
        tabs = run.app.screen.query_one("#inspection")
        for number, late in ((3, "#timings-scroll"), (2, "#store-owners"), (6, "#answers"), (4, "#triage-scroll")):
            await run.pilot.press(str(number))
            await run.pilot.pause()
            chosen = tabs.active
            assert chosen
            run.app.screen.query_one(late).focus()
            await run.pilot.pause()
            assert tabs.active == chosen


async def test_closing_a_conversation_frees_its_pages(start, answered):
    async with start() as run:
        run.screen.open_conversation(answered)
        await run.wait(lambda: run.screen.conversation_id == answered)
        closed = []
        run.engine.watch.close = closed.append
        await run.send("/close", until_done=False)
        await run.wait(lambda: closed == [answered])
        assert run.screen.conversation_id is None


def test_an_answer_without_a_record_is_told_so():
    from octavo.storage.records import StoredMessage

    message = StoredMessage("m", "c", None, "assistant", "Hi", "complete", "", (), "m", {})
    assert "before its pages were recorded" in answer_content(message, {}, [], 60).plain
    assert "when the answer has ended" in answer_content(replace(message, status="streaming"), {}, [], 60).plain
    dense = replace(message, record={**RECORD, "pages": {**RECORD["pages"], "dense": True}})
    assert "Every page was read for every token." in answer_content(dense, {}, [], 60).plain
    assert timings_content([], 80).plain == "No answer was timed yet."


@pytest.mark.parametrize("tab", range(1, 7))
async def test_what_comes_after_the_panel_was_left_is_shown_to_nobody(start, answered, database, conversations, tab):
    async with start() as run:
        run.screen.backend.memory = ChatMemory(database, conversations, Paths.from_environment(), "off")
        threads = []
        run.screen.open_conversation(answered)
        await run.wait(lambda: run.screen.conversation_id == answered, "the conversation")
        await run.settle()
        run.screen.in_thread = lambda function, then, otherwise=None, **_: threads.append((function, then, otherwise))
        await run.pilot.press("f2")
        await run.wait(lambda: run.screen.inspecting is not None and run.app.screen is run.screen.inspecting, "it")
        await run.pilot.press(str(tab))
        await run.wait(lambda: run.screen.inspecting.active.is_shown)
        await run.settle()
        assert threads or tab == 1  # the engine's thread tells of pages
        await run.pilot.press("escape")
        await run.wait(lambda: run.app.screen is run.screen)
        for function, then, otherwise in threads:
            try:
                then(function())
            except AppError as error:  # there is no such model to be looked at
                otherwise(error)
        await run.settle()
        assert run.app.screen is run.screen


def test_the_text_of_pages_is_asked_for_where_the_prompt_is_the_conversations():
    from octavo.storage.records import StoredMessage

    message = StoredMessage("m", "c", None, "assistant", "Hi", "complete", "", (), "m", RECORD)
    assert chosen_pages(message) == (5, 17)
    assert chosen_pages(replace(message, record={**RECORD, "documents": {"ledger": []}})) == ()


def test_only_passages_that_were_left_out_are_said_to_be():
    from octavo.storage.records import StoredMessage

    ledger = [
        {"document": f"{decision}.md", "start": 0, "end": 9, "decision": decision, "reason": "a reason"}
        for decision in ("chosen", "trimmed", "read", "left out")
    ]
    message = StoredMessage(
        "m", "c", None, "assistant", "Hi", "complete", "", (), "m", {"documents": {"ledger": ledger}}
    )
    shown = answer_content(message, {}, [], 60).plain
    assert "passage left out: left out.md 0-9, a reason" in shown
    assert shown.count("passage left out") == 1


def test_plots():
    assert sparkline([0, 1, 2, 4], 10) == " ▃▅█"
    assert sparkline([0, 0], 10) == "··"
    assert sparkline(range(100), 5) == "█████"
    assert parts_bar([("█", "", 50), ("▒", "", 1)], 100, 10).plain == "█████▒····"
    assert parts_bar([], 0, 10).plain == ""
