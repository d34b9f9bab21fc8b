"""The figures of an engine are what its pools hold, at every moment; and looking at its pages changes nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.engine import load
from octavo.engine.events import DoneEvent
from octavo.engine.gauge import measure
from octavo.engine.inspection import ABSENT, DEVICE, DISK, HOST, UNFINISHED

PAGE = 8
GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)


@pytest.fixture(scope="module")
def folder(make_hf_folder):
    return make_hf_folder("llama")


def engine_of(folder, **config):
    sizes = {"page_size": PAGE, "prefill_chunk": 32, "kv_codec": "f32", "compute_dtype": "float32", **config}
    return load(folder, EngineConfig(**sizes), quantization="none", fingerprint="tiny")


def prompt(length, seed=0):
    return random.Random(seed).choices(range(3, 259), k=length)


def check(engine):
    """The figures against what the pools say of themselves, and against the tensors."""
    figures, pool, host = measure(engine), engine.cache.pool, engine.cache.tiers.host
    engine.cache.check_conservation()
    assert figures.pool == pool.nbytes
    assert figures.slots.free == pool.num_free * engine.cache.layout.slot_bytes
    assert figures.slots.in_use + figures.slots.cached + figures.slots.free == figures.slots.total
    assert figures.rows.total == host.nbytes
    assert figures.rows.free == host.num_free * (host.nbytes // max(host.num_rows, 1))
    assert min(figures.slots.in_use, figures.slots.cached, figures.rows.in_use, figures.rows.cached) >= 0
    assert figures.most_occupied >= figures.slots.occupied
    return figures


def finished(engine):
    done = None
    while not engine.is_idle:
        for event in engine.step():
            done = event if isinstance(event, DoneEvent) else done
    return done


@pytest.mark.parametrize("host_bytes", [0, 1 << 20])
def test_figures_follow_a_request_through_running_cancelling_and_forgetting(folder, host_bytes):
    engine = engine_of(folder, host_bytes=host_bytes)
    empty = check(engine)
    assert (empty.slots.occupied, empty.tails.in_use, empty.hit_rate) == (0, 0, None)
    page = engine.cache.page_bytes
    request = engine.submit(prompt(5 * PAGE + 3), GREEDY, owner="a")
    waiting = check(engine)
    assert (waiting.num_running, waiting.num_waiting) == (0, 1)
    engine.step()
    engine.step()
    running = check(engine)
    assert running.slots.in_use == 5 * page, "five complete pages of a known size"
    assert running.slots.cached == 0
    assert running.tails.in_use > 0
    if host_bytes:
        assert running.rows.in_use == 5 * page
    engine.cancel(request)
    cancelled = check(engine)
    assert (cancelled.slots.in_use, cancelled.slots.cached, cancelled.tails.in_use) == (0, 5 * page, 0)
    engine.forget("a")
    forgotten = check(engine)
    assert (forgotten.slots.occupied, forgotten.rows.occupied) == (0, 0)
    assert forgotten.most_occupied == 5 * page


def test_figures_add_up_while_pages_move(folder):
    engine = engine_of(folder, kv_bytes=292_768, host_bytes=1 << 20)
    for seed in range(4):
        engine.submit(prompt(60 + 20 * seed, seed), GREEDY, owner=f"owner {seed}")
        while not engine.is_idle:
            engine.step()
            figures = check(engine)
    assert figures.counters.evicted_from_device > 0, "the pool was too small, so pages moved"
    assert figures.counters.layer_reads > 0
    assert 0.0 <= figures.hit_rate < 1.0


def test_everything_on_the_device_is_a_hit_rate_of_one(folder):
    engine = engine_of(folder)
    engine.submit(prompt(40), GREEDY)
    finished(engine)
    assert measure(engine).hit_rate == 1.0


def test_a_page_map_shows_every_page_where_it_is(folder):
    engine = engine_of(folder, host_bytes=1 << 20)
    engine.submit(prompt(6 * PAGE + 1), GREEDY, owner="a")
    engine.step()
    engine.step()
    running = engine.inspection.look("a")
    assert running.is_running
    assert running.tier.shape == (engine.spec.num_layers, 6 + 1)
    assert (running.tier[:, :6] == DEVICE).all()
    assert (running.tier[:, 6] == UNFINISHED).all()
    assert (running.age >= -1).all()
    done = finished(engine)
    tokens = done.metrics.prompt_tokens + done.metrics.generated_tokens
    after = engine.inspection.look("a")
    assert (after.is_running, after.num_tokens, after.num_complete) == (False, tokens, (tokens - 1) // PAGE)
    freed = engine.cache.rest({"a"})
    assert freed == 0 or freed % engine.cache.layout.slot_bytes == 0
    rested = engine.inspection.look("a")
    assert (rested.tier[:, : rested.num_complete] == HOST).all(), "what lies below leaves the device"
    assert freed == engine.spec.num_layers * after.num_complete * engine.cache.layout.slot_bytes
    engine.cache.check_conservation()
    detail = engine.inspection.detail("a", 2)
    assert detail.token_ids == tuple(prompt(6 * PAGE + 1)[2 * PAGE : 3 * PAGE])
    assert (detail.owners, len(detail.identity)) == (("a",), 64)
    assert engine.inspection.detail("a", 99) is None
    engine.forget("a")
    assert engine.inspection.look("a") is None


@pytest.mark.parametrize("tokens", [1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 5])
def test_every_token_is_on_a_page_of_the_map_or_unread(folder, tokens):
    """The unfinished page is one of them: on the device while it is filled, nowhere once the request has ended."""
    engine = engine_of(folder)
    engine.submit(prompt(tokens), GREEDY, owner="a")
    steps = 0
    while engine.step() or engine.sequences:
        seen, steps = engine.inspection.look("a"), steps + 1
        assert seen.num_complete * PAGE + seen.tail_tokens + seen.num_unread == seen.num_tokens
        assert 0 <= seen.tail_tokens <= PAGE
        tail = engine.inspection.detail("a", seen.num_complete)
        assert (tail is not None) == bool(seen.tail_tokens)
        if tail is not None:
            assert (len(tail.token_ids), tail.identity, tail.owners) == (seen.tail_tokens, "", ("a",))
            assert (seen.tier[:, -1] == (UNFINISHED if seen.is_running else ABSENT)).all()
    assert steps > 1


def test_resting_spares_what_others_own_and_what_lies_nowhere_else(folder):
    engine = engine_of(folder)
    engine.submit(prompt(40), GREEDY, owner="alone")
    finished(engine)
    assert engine.cache.rest({"alone"}) == 0, "without a tier below there would be nothing left of them"
    engine = engine_of(folder, host_bytes=1 << 20)
    for owner in ("a", "b"):
        engine.submit([*prompt(2 * PAGE), *prompt(2 * PAGE, ord(owner)), 5], GREEDY, owner=owner)
        finished(engine)
    engine.cache.rest({"a"})
    map_b = engine.inspection.look("b")
    assert (map_b.tier[:, :-1] == DEVICE).all(), "shared pages stay for the one that still wants them"
    assert (engine.inspection.look("a").tier[:, 2:-1] == HOST).all()


def test_pages_of_a_conversation_that_was_not_asked_about_are_named_by_its_tokens(folder):
    engine = engine_of(folder)
    assert engine.inspection.look("new") is None
    engine.inspection.know("new", prompt(3 * PAGE + 2))
    assert (engine.inspection.look("new").tier == ABSENT).all()
    assert DISK < HOST < DEVICE


def test_what_an_answer_read_is_told_at_its_end(folder):
    engine = engine_of(folder, host_bytes=1 << 20)
    engine.submit(prompt(60), GREEDY, owner="a")
    pages = finished(engine).pages
    assert (pages.total, pages.device, pages.dense, pages.chosen) == ((60 + 11) // PAGE, pages.total, True, ())
    from octavo.engine.config import AttentionConfig

    few = AttentionConfig(dense_limit=32, window=32, floor=8, cap=16)
    engine = engine_of(folder, attention=few, host_bytes=1 << 20)
    engine.submit(prompt(150), GREEDY, owner="a")
    pages = finished(engine).pages
    assert not pages.dense
    places = [place for place, _ in pages.chosen]
    assert places
    assert min(places) > 0
    assert max(places) < pages.total
    counts = [count for _, count in pages.chosen]
    assert counts == sorted(counts, reverse=True)
    assert np.isin(places, range(pages.total)).all()
    engine.submit(prompt(20), GREEDY)
    engine.cancel(engine.sequences[0].request_id)
    assert finished(engine).pages is None
