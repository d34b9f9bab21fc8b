"""The gauge's bars add up to what the system and the pools report, and warnings come before a limit is met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app.assistant.probe import Probe, SystemFigures
from octavo.app.assistant.reading import PROGRAM_GROWS, Context, Meter
from octavo.app.assistant.snapshot import Limits, Snapshot
from octavo.engine.gauge import CudaMemory, EngineFigures, Held
from octavo.engine.kv.residency import TierCounters
from octavo.storage.pages import StoreUsage

MB, GB = 10**6, 10**9
SYSTEM = SystemFigures(900 * MB, 300 * MB, 0, 950 * MB, 16 * GB, 9 * GB, 500 * GB, 200 * GB)
ENGINE = EngineFigures(
    device="cpu", weights=98 * MB, slots=Held(40 * MB, 60 * MB, 300 * MB), tails=Held(MB, 0, 16 * MB), passing=2 * MB,
    bounds=0, state=MB, rows=Held(20 * MB, 5 * MB, 50 * MB), unwritten=0, most_occupied=150 * MB,
    counters=TierCounters(), num_layers=30, page_bytes=MB, page_size=32, context=8192, num_running=1, num_waiting=0,
)  # fmt: skip
SNAPSHOT = Snapshot("m", ENGINE, Limits(400 * MB, 80 * MB, 50 * MB, 64 * GB), StoreUsage(100 * MB, 64 * GB, 0, 0))
CUDA = replace(
    ENGINE, device="cuda", cuda=CudaMemory(3 * GB, 8 * GB, 420 * MB, 500 * MB, 480 * MB), rows=Held(0, 0, 50 * MB)
)


SHORT = Context(100, 8192)


def read(snapshot=SNAPSHOT, system=SYSTEM, context=SHORT):
    return Meter().read(snapshot, system, context, 0.0)


def bar(reading, name):
    return next(bar for bar in reading.bars if bar.name == name)


@pytest.mark.parametrize("snapshot", [None, SNAPSHOT, replace(SNAPSHOT, engine=CUDA), replace(SNAPSHOT, store=None)])
@pytest.mark.parametrize("rss", [MB, 60 * MB, 900 * MB, 12 * GB])
def test_parts_add_up_to_the_whole(snapshot, rss):
    reading = read(snapshot, replace(SYSTEM, rss=rss, shared=min(rss, 300 * MB)))
    for each in reading.bars:
        assert sum(part.size for part in each.parts) == each.total
        assert all(part.size > 0 for part in each.parts)


def test_ram_holds_exactly_what_pools_and_system_report():
    ram = bar(read(), "RAM")
    assert ram.used == SYSTEM.rss
    assert ram.size("in use") == 40 * MB + MB + 20 * MB
    assert ram.size("cached") == 60 * MB + 5 * MB
    assert ram.size("weights") == 98 * MB
    assert ram.size("free") == SYSTEM.available - SYSTEM.shared
    assert (ram.peak, ram.counted, ram.budget) == (950 * MB, 126 * MB, 300 * MB + 16 * MB + 50 * MB)
    assert (ram.room, ram.loose) == (200 * 32, 60 * 32)
    assert [part.kind for part in ram.parts if part.is_estimate] == ["weights", "workspace", "others"]


def test_on_a_gpu_the_allocator_and_the_driver_are_believed():
    reading = read(replace(SNAPSHOT, engine=CUDA))
    gpu = bar(reading, "GPU")
    assert (gpu.total, gpu.used, gpu.size("free")) == (8 * GB, 500 * MB, 3 * GB)
    assert gpu.size("others") == 8 * GB - 3 * GB - 500 * MB
    assert bar(reading, "RAM").size("weights") == 0
    assert reading.ceiling.sentence == "Octavo stays under 400 MB on the GPU and 50.0 MB of RAM for pages"


def touched(size: int) -> Snapshot:
    """After pages filled so much of the pool."""
    return replace(SNAPSHOT, engine=replace(ENGINE, most_occupied=size, slots=Held(size, 0, 300 * MB)))


def test_what_it_stays_under_counts_the_program_and_does_not_move_while_pages_and_workspace_fill():
    meter, loaded = Meter(), 98 * MB + 26 * MB + 412 * MB  # weights, pages that are there, and the program
    for filled, computing in [(0, 0), (0, 80 * MB), (150 * MB, 80 * MB), (300 * MB, 80 * MB), (300 * MB, 0)]:
        reading = meter.read(touched(filled), replace(SYSTEM, rss=loaded + filled + computing), SHORT, 0.0)
        assert reading.ceiling.size == (400 + 50 + 98 + 412) * MB + PROGRAM_GROWS
        assert bar(reading, "RAM").used <= reading.ceiling.size
    assert reading.ceiling.sentence == "Octavo stays under ≈1.16 GB of RAM, 548 MB of it the model's"


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3_000)), min_size=1, max_size=8))
def test_no_figure_exceeds_what_it_is_said_to_stay_under(moments):
    meter, most = Meter(), 0
    for pages, rss in moments:
        most = max(most, pages)
        system = replace(SYSTEM, rss=rss * MB)
        reading = meter.read(touched(most * MB), system, SHORT, 0.0)
        assert reading.ceiling.size >= bar(reading, "RAM").used


def test_what_the_program_itself_allocates_is_seen_in_what_it_stays_under(tmp_path, monkeypatch):
    monkeypatch.setattr("octavo.app.assistant.reading.PROGRAM_GROWS", 16 * MB)
    probe, meter = Probe(tmp_path), Meter()
    empty = replace(ENGINE, weights=MB, most_occupied=0, tails=Held(0, 0, MB), rows=Held(0, 0, MB))
    snapshot = replace(SNAPSHOT, engine=empty, limits=replace(SNAPSHOT.limits, workspace=8 * MB))
    before = meter.read(snapshot, probe.measure(), SHORT, 0.0).ceiling
    assert meter.read(snapshot, probe.measure(), SHORT, 0.0).ceiling == before
    block = np.ones(64 * MB, dtype=np.uint8)
    grown = meter.read(snapshot, probe.measure(), SHORT, 0.0).ceiling
    assert grown.model == before.model
    assert grown.program - before.program == pytest.approx(block.nbytes - (8 + 16) * MB, rel=0.05)
    del block
    assert meter.read(snapshot, probe.measure(), SHORT, 0.0).ceiling == grown, "what was needed once is needed again"
    other = meter.read(replace(snapshot, model="other"), probe.measure(), SHORT, 0.0).ceiling
    assert other.program < grown.program


def test_the_disk_shows_the_store_against_its_cap():
    disk = bar(read(), "NVMe")
    assert (disk.used, disk.budget, disk.room) == (100 * MB, 64 * GB, (64 * GB - 100 * MB) // MB * 32)


def test_pages_a_second_are_counted_over_a_second_and_start_anew_with_another_engine():
    meter = Meter()
    for tick in range(9):
        counters = TierCounters(promoted_from_host=5 * tick, streamed_layers=30 * tick, written=2 * tick)
        snapshot = replace(SNAPSHOT, engine=replace(ENGINE, counters=counters))
        reading = meter.read(snapshot, SYSTEM, Context(), tick / 4)
    assert (reading.up, reading.down) == (pytest.approx(24), pytest.approx(8))
    other = meter.read(replace(SNAPSHOT, model="other"), SYSTEM, Context(), 2.25)
    assert (other.up, other.down) == (0, 0)


@pytest.mark.parametrize(
    ("snapshot", "system", "context", "said"),
    [
        (SNAPSHOT, SYSTEM, Context(7000, 8192), "context 85% full, 1,192 tokens left"),
        (SNAPSHOT, replace(SYSTEM, available=300 * MB), Context(), "only 300 MB of RAM"),
        (SNAPSHOT, replace(SYSTEM, disk_free=500 * MB), Context(), "only 500 MB are free on the disk"),
        (
            replace(SNAPSHOT, store=None, engine=replace(ENGINE, slots=Held(299 * MB, 0, 300 * MB))),
            SYSTEM,
            Context(),
            "pages of only 32 more tokens fit",
        ),
    ],
)
def test_it_warns_before_a_limit(snapshot, system, context, said):
    assert read().warnings == ()
    assert any(said in warning for warning in read(snapshot, system, context).warnings)


def test_the_probe_sees_memory_that_is_allocated(tmp_path):
    probe = Probe(tmp_path / "not there yet")
    before = probe.measure()
    block = np.ones(64 << 20, dtype=np.uint8)
    after = probe.measure()
    assert after.rss - before.rss == pytest.approx(block.nbytes, rel=0.1)
    assert after.peak_rss >= after.rss
    assert 0 < after.available < after.ram
    assert 0 < after.disk_free <= after.disk
    assert probe.wants_pss
    probe.measure_pss()
    assert not probe.wants_pss
    assert 0 <= probe.measure().pss <= probe.measure().rss
