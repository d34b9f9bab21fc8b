"""Pictures of the gauge and of every tab of the inspection panel, at both sizes; see test_snapshots."""

from __future__ import annotations

import itertools

import pytest

from octavo.app.assistant.reading import Meter
from octavo.app.assistant.snapshot import Limits, Snapshot
from octavo.app.assistant.watch import PagesShown
from octavo.app.models.planned import PlannedModel
from octavo.app.settings import Settings
from octavo.app.tui.app import OctavoApp
from octavo.app.tui.backend import Backend
from octavo.app.tui.owners import Owner
from octavo.app.tui.widgets.gauge import GaugeBars
from octavo.app.tui.widgets.store_tab import Kept
from octavo.engine.gauge import EngineFigures, Held
from octavo.engine.inspection import PageDetail, PageMap
from octavo.engine.kv.residency import TierCounters
from octavo.engine.planner import PlainSizes
from octavo.storage.pages import OwnerUse, StoreStats, StoreUsage
from octavo.storage.paths import Paths

MB, GB = 10**6, 10**9
SIZES = PlainSizes(
    num_layers=30, hidden_size=576, num_heads=9, num_kv_heads=3, head_dim=64, intermediate_size=1536, vocab_size=49152
)
ENGINE = EngineFigures(
    device="cpu", weights=98 * MB, slots=Held(40 * MB, 60 * MB, 300 * MB), tails=Held(MB, 0, 16 * MB), passing=2 * MB,
    bounds=0, state=MB, rows=Held(20 * MB, 5 * MB, 50 * MB), unwritten=0, most_occupied=150 * MB,
    counters=TierCounters(layer_reads=100, streamed_layers=2), num_layers=30, page_bytes=MB, page_size=32,
    context=8192, num_running=1, num_waiting=0,
)  # fmt: skip
SNAPSHOT = Snapshot("m", ENGINE, Limits(400 * MB, 80 * MB, 50 * MB, 64 * GB), StoreUsage(100 * MB, 64 * GB, 0, 0))
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


def page_map():
    import numpy as np

    numbers = np.arange(30 * 98).reshape(30, 98)
    tier = np.full((30, 98), 3, np.uint8)
    tier[:, 20:40], tier[5:9, 50:70], tier[:, -1] = 2, 1, 4
    worth = (numbers % 89).astype(np.float32) / 89
    chosen = numbers % 31 == 0
    age = numbers * 7 % 9000
    return PageMap(97 * 32 + 5, 32, tier, age, numbers % 13, worth, chosen, 8, 4, 16, "k8v4", True, tail_tokens=5)


def kept_pages(backend):
    """What the page store holds, long ago."""
    last_use = 1_741_694_400_000
    rows = [
        (Owner("How the [lake] got its name", "conversation"), 1_480, 212, True),
        (Owner("handbook of lakes.pdf", "document"), 912, 0, True),
        (Owner("a deleted conversation", "other"), 12, 3, False),
        (Owner("Where is the lake?", "conversation"), 3, 3, False),
    ]
    kept = [
        Kept(OwnerUse(str(place), pages, pages * MB // 3, shared, last_use, pinned), owner)
        for place, (owner, pages, shared, pinned) in enumerate(rows)
    ]
    return StoreStats(
        "", True, True, 812 * MB, 802 * MB, 2 * MB, 64 * GB, 2_407, 4, 1, 3 * GB, 0, 0, 0, 0, 0, 0, ()
    ), kept


@pytest.fixture
def app(conversations, fake_engine, monkeypatch):
    """The screen with one answered conversation; nothing on it depends on the time or the machine."""
    numbers = itertools.count(1)
    monkeypatch.setattr("octavo.storage.conversations.new_id", lambda: f"{next(numbers):026d}")
    monkeypatch.setattr("octavo.app.tui.widgets.sidebar.heading_for", lambda updated, today: "Today")
    monkeypatch.setattr("octavo.app.models.planned.planned_model", lambda *_: PlannedModel("m", SIZES, MB, 8192, None))
    monkeypatch.setattr("octavo.app.tui.widgets.store_tab.read_store", kept_pages)
    monkeypatch.setattr(Meter, "_rates", lambda self, snapshot, now: (12.0, 3.0))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    conversation = conversations.create("Where is the lake?")
    question = conversations.add_message(conversation.id, None, "user", "Where is the lake?")
    conversations.add_message(conversation.id, question.id, "assistant", "North.", model="fake-model", record=RECORD)
    engine = fake_engine(lambda event: None)
    engine.watch.snapshot = SNAPSHOT

    def look(asked):
        owners = (app.first_conversation, "")
        detail = PageDetail(asked.page or 0, tuple(range(32)), "ab" * 32, owners, "prefill")
        texts = tuple((place, f"text of page {place}") for place in asked.pages)
        engine.emit(PagesShown(asked, page_map(), detail, "The lake lies north of the town.", texts))

    engine.watch.look = look
    backend = Backend(Paths.from_environment(), Settings(), conversations, engine, "fake-model", lambda: None)

    def open_backend(on_event):
        engine.emit = on_event
        return backend

    app = OctavoApp(open_backend)
    app.first_conversation = conversation.id
    return app


async def until(pilot, condition):
    for _ in range(300):
        await pilot.pause(0.01)
        if condition():
            return
    raise AssertionError("it never came")


def showing(tab, *, theme="octavo-dark"):
    async def prepare(pilot):
        app, screen = pilot.app, pilot.app.chat
        app.theme = theme
        await pilot.pause()
        screen.prompt.cursor_blink = False
        await until(pilot, lambda: screen.backend is not None and screen.status.figures.limit)
        screen.open_conversation(app.first_conversation)
        await until(pilot, lambda: screen.transcript.parts and not screen.transcript.turn.locked())
        await until(pilot, lambda: "NVMe" in str(screen.query_one(GaugeBars).content))
        if tab:
            await pilot.press("f2")
            await until(pilot, lambda: screen.inspecting is not None and screen.inspecting.is_mounted)
            await pilot.press(tab)
            await pilot.pause(0.2)
        await app.workers.wait_for_complete()
        await pilot.pause(0.2)

    return prepare


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
@pytest.mark.parametrize("tab", ["", "1", "2", "3", "4", "5", "6"])
def test_tab(app, snap_compare, size, tab):
    assert snap_compare(app, terminal_size=size, run_before=showing(tab))


def test_light(app, snap_compare):
    assert snap_compare(app, terminal_size=(100, 30), run_before=showing("1", theme="octavo-light"))


@pytest.fixture
def no_colour(monkeypatch):
    """Asked for before `app`: a program looks for it when it begins."""
    monkeypatch.setenv("NO_COLOR", "1")


def test_without_colour(no_colour, app, snap_compare):
    assert snap_compare(app, terminal_size=(100, 30), run_before=showing("1"))
