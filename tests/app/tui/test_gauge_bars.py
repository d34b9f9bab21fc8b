"""The gauge on the screen: bars add up in cells too, shapes tell without colour, and the same is not painted twice."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace

import pytest

from octavo.app.assistant.probe import Probe, SystemFigures
from octavo.app.assistant.reading import Bar, Ceiling, Context, Part, Reading
from octavo.app.assistant.snapshot import Limits, Snapshot
from octavo.app.tui import gauge_text
from octavo.app.tui.gauge_feed import GaugeFeed
from octavo.app.tui.widgets.gauge import GaugeBars
from octavo.engine.gauge import EngineFigures, Held
from octavo.engine.kv.residency import TierCounters
from octavo.storage.pages import StoreUsage

MB, GB = 10**6, 10**9
ENGINE = EngineFigures(
    device="cpu", weights=98 * MB, slots=Held(40 * MB, 60 * MB, 300 * MB), tails=Held(MB, 0, 16 * MB), passing=2 * MB,
    bounds=0, state=MB, rows=Held(20 * MB, 5 * MB, 50 * MB), unwritten=0, most_occupied=150 * MB,
    counters=TierCounters(layer_reads=100, streamed_layers=2), num_layers=30, page_bytes=MB, page_size=32,
    context=8192, num_running=1, num_waiting=0,
)  # fmt: skip
SNAPSHOT = Snapshot("m", ENGINE, Limits(400 * MB, 80 * MB, 50 * MB, 64 * GB), StoreUsage(100 * MB, 64 * GB, 0, 0))
SYSTEM = SystemFigures(900 * MB, 300 * MB, 0, 950 * MB, 16 * GB, 9 * GB, 500 * GB, 200 * GB)
BAR = Bar(
    "RAM",
    1_000,
    (Part("weights", 100, True), Part("in use", 1), Part("cached", 200), Part("others", 300), Part("free", 399)),
    301,
    500,
    450,
    64,
    32,
)
READING = Reading((BAR, BAR), 3.0, 1.0, 0.98, Ceiling("RAM", 1_310 * MB, 420 * MB), ())


@pytest.mark.parametrize("width", [4, 5, 7, 20, 41, 100])
def test_every_part_has_its_cells_and_together_they_fill_the_bar(width):
    kinds = gauge_text.cells(BAR, width)
    assert len(kinds) == width
    if width >= 5:
        assert set(kinds) == {part.kind for part in BAR.parts}, "what is there is seen, however small"
    order = [part.kind for part in BAR.parts]
    assert kinds == sorted(kinds, key=order.index)


def test_shapes_differ_without_colour_and_the_peak_has_its_mark():
    shapes = [shape for shape, _, _ in gauge_text.LOOKS.values()]
    assert len(set(shapes)) == len(shapes)
    text = gauge_text.bar_content(BAR, 20).plain
    assert text[9] == gauge_text.PEAK
    assert text.startswith("██▓▒")


@pytest.mark.parametrize("width", [78, 118, 158])
def test_no_row_is_wider_than_the_screen(width):
    warned = replace(READING, warnings=("context 85% full, 1,192 tokens left",) * 3)
    for reading in (READING, warned):
        for layout in (gauge_text.compact, gauge_text.wide):
            content = layout(reading, Context(100, 8192), 61.5, width)
            assert all(line.cell_length <= width for line in content.split("\n")), content.plain
            assert "…" not in content.plain, "a figure is whole or not there"
    assert gauge_text.compact(warned, Context(), 0.0, width).plain.split("\n")[1].startswith("⚠ context")


def _bytes(found: re.Match[str]) -> float:
    return float(found[1]) * (GB if found[2] == "G" else MB)


def test_on_a_gpu_it_says_whose_limit_it_is():
    content = gauge_text.compact(replace(READING, ceiling=Ceiling("GPU", 6 * GB, host=GB)), Context(), 0.0, 78)
    assert "GPU stays under 6.00G" in content.plain


async def test_it_is_on_the_screen_at_once_and_follows_the_engine(start):
    async with start(size=(80, 24)) as run:
        await run.wait(lambda: "RAM " in run.text(), "the gauge")
        assert run.screen.query_one(GaugeBars).size.height == 2
        run.engine.watch.snapshot = SNAPSHOT
        await run.wait(lambda: "NVMe" in run.text())
        assert "hits 98%" in run.text()
        said = re.search(r" stays under ≈([\d.]+)([MG])", run.text())
        shown = re.search(r"RAM \S+ ([\d.]+)([MG])", run.text())
        assert said
        assert shown
        assert _bytes(said) >= _bytes(shown), "what is promised is not contradicted by the figure beside it"
        assert "room RAM 8320, NVMe 2.0M tok" in run.text(), "there is room for all of it"
        run.engine.watch.snapshot = replace(SNAPSHOT, engine=replace(ENGINE, slots=Held(0, 0, 300 * MB)))
        await run.wait(lambda: "RAM 9600" in run.text())


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_one_screen_has_one_figure_for_the_kv(start, size):
    async with start(size=size, prepare=lambda engine: setattr(engine.watch, "snapshot", SNAPSHOT)) as run:
        await run.send("Hi")
        await run.wait(lambda: "NVMe" in run.text())
        for key in ("", "f2", "escape"):
            if key:
                await run.pilot.press(key)
            if key == "escape":
                await run.screen.run_command("/budgets")
                await run.wait(lambda: "In use now" in run.text())
            await run.settle()
            assert set(re.findall(r"KV [\d.]+[KMGB ]*/[\d.]+[KMG]?", run.text())) == {"KV 126M/366M"}


async def test_a_large_terminal_names_the_parts(start):
    async with start(size=(160, 48), prepare=lambda engine: setattr(engine.watch, "snapshot", SNAPSHOT)) as run:
        await run.wait(lambda: "KV cached" in run.text(), "the legend")
        rows = run.text()
        assert "░ program ≈" in rows
        assert re.search(r"Octavo stays under ≈[\d.]+ [MG]B of RAM, 548 MB of it the model's", rows)


async def test_what_did_not_change_is_not_painted_again(start, monkeypatch):
    async with start(size=(80, 24), prepare=lambda engine: setattr(engine.watch, "snapshot", SNAPSHOT)) as run:
        await run.wait(lambda: "NVMe" in run.text())
        await run.pilot.pause(0.6)
        painted = []
        gauge = run.screen.query_one(GaugeBars)
        monkeypatch.setattr(gauge, "update", lambda *_, **__: painted.append(1))
        for _ in range(5):
            run.screen.tick_gauge(run.screen.status)
        assert painted == []


def test_a_disk_that_does_not_answer_does_not_stop_the_screen(tmp_path, monkeypatch):
    """Once it answers again, so does the gauge; and its thread ends with it."""
    answers = threading.Event()
    feed = GaugeFeed(tmp_path)
    before = feed.read(None, Context())

    def measure(probe):
        assert answers.wait(10)
        return replace(SYSTEM, rss=700 * MB)

    monkeypatch.setattr(Probe, "measure", measure)
    for _ in range(3):
        assert feed.read(None, Context()) is before
    answers.set()
    deadline = time.monotonic() + 10
    while feed.read(None, Context()) is before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert feed.read(None, Context()).bars[0].used == 700 * MB
    feed.close()
    while feed.is_looking and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not feed.is_looking


async def test_the_context_is_that_of_the_conversation_on_the_screen(start, conversations):
    other = conversations.create("An older one")
    question = conversations.add_message(other.id, None, "user", "Hi")
    record = {"usage": {"prompt_tokens": 300, "generated_tokens": 45}}
    conversations.add_message(other.id, question.id, "assistant", "Hello.", model="m", record=record)
    async with start(size=(80, 24)) as run:
        await run.send("Hello")
        used = run.screen.status.figures.used
        assert used
        run.screen.open_conversation(other.id)
        await run.wait(lambda: run.screen.conversation_id == other.id)
        await run.wait(lambda: "345/1,000 (34%)" in run.text())
        await run.pilot.press("ctrl+n")
        await run.wait(lambda: " 0/1,000 (0%)" in run.text(), "nothing was asked yet")
        run.engine.hold = True
        run.engine.answers.append(["One ", "two."])
        await run.send("Go on", until_done=False)
        await run.wait(lambda: run.screen.live_id is not None)
        run.screen.open_conversation(other.id)
        await run.wait(lambda: "345/1,000 (34%)" in run.text())
        run.engine.hold = False
        run.engine.release()
        await run.wait(lambda: not run.screen.is_busy)
        await run.settle()
        assert "345/1,000 (34%)" in run.text(), "another conversation's answer has ended"
