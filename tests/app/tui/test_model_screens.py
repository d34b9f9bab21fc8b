"""Choosing and downloading models on the screen."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from dataclasses import replace

import pytest

from octavo.app.assistant.engine_events import ModelFailed
from octavo.app.models.catalogue import HubSource, load_catalogue
from octavo.app.models.recommend import Memory
from octavo.app.models.resolve import open_registry
from octavo.app.tui.screens.download import Download
from octavo.app.tui.screens.first_run import FirstRun, find_offers
from octavo.app.tui.screens.models import ModelPicker
from octavo.storage.paths import Paths

GB = 10**9


@pytest.fixture
def entry(fake_hub, tiny_gguf):
    """A model of the catalogue that the loopback hub serves."""
    data = tiny_gguf()
    fake_hub.files["org/tiny"] = {"tiny.gguf": data}
    known = load_catalogue().default_entry
    source = HubSource("org/tiny", "tiny.gguf")
    return replace(
        known, id="tiny", name="Tiny", file="tiny.gguf", size=len(data), sources=(source,),
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip


async def test_a_model_is_downloaded_with_progress(start, entry):
    async with start() as run:
        results = []
        run.app.push_screen(Download(entry, Paths.from_environment(), offline=False), results.append)
        await run.wait(lambda: results, "the download")
        assert results == [True]
        assert (Paths.from_environment().models_dir / "tiny.gguf").stat().st_size == entry.size


async def test_a_download_can_be_cancelled_and_keeps_what_came(start, entry, monkeypatch):
    going, gone_on = threading.Event(), threading.Event()

    def pull(entry, paths, *, offline, announce, progress):
        announce("Fetching [tiny]")
        progress(entry.size // 2, entry.size)
        going.set()
        gone_on.wait(10)
        progress(entry.size, entry.size)

    monkeypatch.setattr("octavo.app.models.resolve.pull_entry", pull)
    async with start() as run:
        results = []
        run.app.push_screen(Download(entry, Paths.from_environment(), offline=False), results.append)
        await asyncio.to_thread(going.wait, 10)
        await run.pilot.pause(0.2)
        assert "50%" in run.text()
        assert "Fetching [tiny]" in run.text()
        await run.pilot.press("escape")
        gone_on.set()
        await run.wait(lambda: results)
        assert results == [False]


async def test_a_failed_download_says_why_and_can_be_tried_again(start, entry, fake_hub):
    fake_hub.failing_status = 404
    async with start() as run:
        results = []
        run.app.push_screen(Download(entry, Paths.from_environment(), offline=False), results.append)
        await run.wait(lambda: "Try again" in run.text(), "the offer to try again")
        assert "could not be fetched" in run.text()
        fake_hub.failing_status = None
        await run.pilot.press("enter")
        await run.wait(lambda: results)
        assert results == [True]


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize(
    ("ram", "suggested"), [(24 * GB, "qwen2.5-coder-0.5b"), (1_000_000_000, "smollm2-135m"), (10_000_000, None)]
)
def test_without_the_hub_the_default_or_the_small_one_is_suggested(ram, suggested):
    offers = find_offers(Paths.from_environment(), offline=False, memory=Memory(0, None, ram))
    assert offers.suggested == suggested
    large = next(offer for offer in offers.offers if offer.model.id == "qwen3-8b")
    assert large.obstacle


def test_with_the_hub_the_best_that_fits_is_suggested(fake_hub):
    source = next(item for item in load_catalogue().default_entry.sources if isinstance(item, HubSource))
    fake_hub.files[source.repo] = {source.file: b"x"}
    offers = find_offers(Paths.from_environment(), offline=False, memory=Memory(12 * GB, "A GPU", 24 * GB))
    assert offers.suggested == offers.offers[0].model.id
    assert offers.offers[0].model.runs_on == "gpu"


@pytest.mark.usefixtures("no_hub")
async def test_a_missing_model_opens_the_first_run_screen(start, entry, monkeypatch):
    monkeypatch.setattr("octavo.app.models.recommend.measure_memory", lambda: Memory(0, None, 24 * GB))

    def pull(entry, paths, **_):
        paths.models_dir.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr("octavo.app.models.resolve.pull_entry", pull)
    async with start(size=(80, 24)) as run:
        run.engine.emit(ModelFailed("qwen2.5-coder-0.5b", "It is not here.", "missing", "qwen2.5-coder-0.5b"))
        await run.wait(lambda: isinstance(run.app.screen, FirstRun) and "suggested" in run.text(), "the offers")
        for text in ("Welcome to Octavo", "24.0 GB of RAM available", "Download (Enter)", "Later (Esc)"):
            assert text in run.text()
        await run.pilot.press("enter")
        await run.wait(lambda: ("load", "qwen2.5-coder-0.5b") in run.engine.calls, "the downloaded model")
        assert open_registry(Paths.from_environment()).default == "qwen2.5-coder-0.5b"
        await run.settle()
        assert not isinstance(run.app.screen, FirstRun)


@pytest.mark.usefixtures("no_hub")
async def test_the_picker_chooses_a_model_that_is_here(start, tmp_path, tiny_gguf):
    paths = Paths.from_environment()
    paths.models_dir.mkdir(parents=True)
    (paths.models_dir / load_catalogue().default_entry.file).write_bytes(tiny_gguf())
    async with start() as run:
        await run.pilot.press("f4")
        await run.wait(lambda: isinstance(run.app.screen, ModelPicker) and "not here yet" in run.text())
        assert "qwen2.5-coder-0.5b" in run.text()
        await run.pilot.press("home", "enter")
        await run.wait(lambda: ("load", "qwen2.5-coder-0.5b") in run.engine.calls)
        await run.settle()
        assert open_registry(paths).default == "qwen2.5-coder-0.5b"
        assert run.rows()[-1].count("qwen2.5-coder-0.5b") == 1
        await run.pilot.press("f4")
        await run.wait(lambda: "in use" in run.text(), "the mark of the model in use")


async def test_a_model_is_used_by_name_or_refused_with_a_reason(start):
    async with start() as run:
        await run.screen.run_command("/model smollm2-135m")
        await run.wait(lambda: ("load", "smollm2-135m") in run.engine.calls)
        assert open_registry(Paths.from_environment()).default == "smollm2-135m"
        await run.screen.run_command("/model nonesuch")
        await run.wait(lambda: "No model is called nonesuch" in run.text(), "the reason")
        assert ("load", "nonesuch") not in run.engine.calls


async def test_the_model_in_the_status_line_opens_the_picker(start):
    async with start() as run:
        await run.pilot.click("#status-model", offset=(2, 0))
        await run.settle()
        assert isinstance(run.app.screen, ModelPicker)


async def test_a_model_that_cannot_be_loaded_is_told(start):
    async with start() as run:
        run.engine.emit(ModelFailed("broken", "broken.gguf ends in the middle of [a] tensor."))
        await run.wait(lambda: "in the middle of [a] tensor" in " ".join(run.text().split()), "the reason")
        assert "No model" in run.rows()[-1]
