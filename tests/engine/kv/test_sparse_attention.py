"""Reading only what matters: equal to dense where everything is chosen, independent of chunks, budgets and restarts."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.config import STREAM_PAGES, AttentionConfig, EngineConfig, GenerationPolicy
from octavo.engine.kv.eviction import Keys, TwoFactor
from octavo.engine.kv.loading import Loader
from octavo.engine.kv.pools import Ids
from octavo.engine.kv.tiers import Tiers
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.storage.pages import open_store

RANDOM = random.Random(9)
PROMPT = [RANDOM.randrange(320) for _ in range(1101)]
TOLERANCE = 2e-4
GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)

# Pages of 8 tokens, a window of 16 of them; 64 pages, 512 tokens, can be selected.
EVERYTHING = AttentionConfig(dense_limit=128, window=128, floor=512, cap=512, mass_target=1.0)
FEW = AttentionConfig(dense_limit=256, window=64, floor=32, cap=96, mass_target=0.9)
FLOOR_IS_ENOUGH = replace(FEW, mass_target=0.0, question=16, question_cap=128)


@pytest.fixture(scope="session")
def folders(make_hf_folder: Callable[..., Path]) -> Callable[[str], Path]:
    return lambda family: make_hf_folder(family, max_position_embeddings=1024)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("codec", ["f32", "k8v4"])
def test_selecting_every_page_is_dense_attention(
    tiered: Callable[..., Any], folders: Callable[[str], Path], family: str, codec: str
) -> None:
    prompt = PROMPT[:600]
    dense = tiered(folder=folders(family), kv_codec=codec).answer(prompt)
    sparse = tiered(folder=folders(family), kv_codec=codec, attention=EVERYTHING).answer(prompt)
    assert sparse.tokens == dense.tokens
    torch.testing.assert_close(sparse.logits, dense.logits, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    "attention",
    [
        FEW,
        AttentionConfig(window=64, floor=32, cap=96),
        AttentionConfig(window=64, floor=32, cap=96, far_positions="one angle"),
    ],
)
def test_results_do_not_depend_on_how_a_prompt_is_cut(
    tiered: Callable[..., Any], folders: Callable[[str], Path], attention: AttentionConfig
) -> None:
    """Within and past the trained length."""
    runs = [
        tiered(folder=folders("qwen2"), attention=attention, context=2048, kv_codec="f32", prefill_chunk=chunk).answer(
            PROMPT
        )
        for chunk in (8, 40, 64)
    ]
    for other in runs[1:]:
        assert other.tokens == runs[0].tokens
        torch.testing.assert_close(other.logits, runs[0].logits, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("window", [64, 448, 512, 904])
def test_no_page_is_read_at_a_distance_that_the_model_was_not_trained_on(
    folders: Callable[[str], Path], window: int
) -> None:
    spec = open_checkpoint(folders("llama"), quantization="none").spec
    attention = AttentionConfig(window=window, floor=32, cap=512)
    plan = ReadingPlan.of(spec, EngineConfig(page_size=8, prefill_chunk=64, context=4096, attention=attention))
    assert plan.cap_pages == {64: 63, 448: 63, 512: 62, 904: 13}[window]
    for count in (0, 1, plan.cap_pages, plan.question_cap_pages):
        starts = plan.far_starts(count)
        assert (starts[0], len(starts), list(np.diff(starts[1:]))) == (0, count + 1, [8] * max(count - 1, 0))
        assert count == 0 or starts[-1] + 8 == plan.far_end, "the last one stands next to the window"
    farthest = plan.far_end + (plan.window_pages + 1) * 8 - 1  # the last query of a page, from the first token
    assert farthest < spec.context_length == 1024


@pytest.mark.parametrize(("codec", "most_weighed"), [("bf16", 2048), ("k8v4", 2048), ("k8v4", 60)])
def test_logits_are_bit_identical_under_every_budget(
    tiered: Callable[..., Any],
    folders: Callable[[str], Path],
    memory_store: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    codec: str,
    most_weighed: int,
) -> None:
    """Also where layers take turns at weighing all pages."""
    monkeypatch.setattr("octavo.engine.kv.candidates.MOST_WEIGHED", most_weighed)
    settings: dict[str, Any] = {
        "folder": folders("qwen2"), "attention": FEW, "context": 2048, "kv_codec": codec,
    }  # fmt: skip
    everything = tiered(**settings).answer(PROMPT)
    assert everything.done.error is None
    for budget in (
        {"device_pages": 12, "host_pages": 300},
        {"device_pages": 12, "store": memory_store()},
        {"device_pages": 0, "store": memory_store()},
        {"device_pages": 30, "host_pages": 60, "store": memory_store()},
    ):
        engine = tiered(**settings, **budget)
        found = engine.answer(PROMPT)
        assert torch.equal(found.logits, everything.logits), budget
        engine.settle()


def test_what_one_selects_does_not_push_out_what_another_reads_always(
    tiered: Callable[..., Any],
    folders: Callable[[str], Path],
    memory_store: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of sequences with one beginning, pages far from the one are in the window of another; whatever gives way."""

    def any_victims(policy: TwoFactor, candidates: Keys, count: int) -> Keys:
        return np.random.default_rng(len(candidates)).permutation(candidates)[:count]

    monkeypatch.setattr(TwoFactor, "victims", any_victims)
    engine = tiered(folder=folders("qwen2"), attention=FEW, context=2048, store=memory_store(), device_pages=24)
    engine.answer(PROMPT)
    engine.settle()
    cache = engine.engine.cache
    opened = cache.open(PROMPT, "test")
    window = np.array(opened.page_ids[40:50])
    others = np.array(opened.page_ids[60:])
    tiers = cache.tiers
    tiers.begin_step(window)
    places = tiers.device.slots[:, window].copy()
    assert (places >= 0).all()
    for start in range(0, len(others) - 6, 6):
        for layer in range(tiers.device.num_layers):
            tiers.load_selected(layer, np.concatenate((window[start % 10 : start % 10 + 2], others[start : start + 6])))
        assert np.array_equal(tiers.device.slots[:, window], places)
    cache.close(opened)


def test_after_a_restart_bounds_and_pages_are_found_and_the_logits_agree(
    tiered: Callable[..., Any], folders: Callable[[str], Path], tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"folder": folders("qwen2"), "attention": FEW, "context": 2048, "kv_codec": "k8v4"}
    store = open_store(tmp_path / "pages", 1 << 28)
    engine = tiered(**settings, store=store)
    before = engine.answer(PROMPT)
    cache = engine.engine.cache
    pages = cache.table.match(PROMPT[:-1])
    bounds = [cache.tiers.bounds.of(page) for page in pages]
    cache.table.release(pages)
    engine.engine.close()
    store.close()

    store = open_store(tmp_path / "pages", 1 << 28)
    engine = tiered(**settings, store=store, device_pages=30)
    after = engine.answer(PROMPT)
    cache = engine.engine.cache
    opened = cache.open(PROMPT, "test")
    assert np.array_equal([cache.tiers.bounds.of(page) for page in opened.page_ids], bounds)
    cache.close(opened)
    assert after.metrics.reused_disk == len(PROMPT) // 8 * 8
    assert after.tokens == before.tokens
    torch.testing.assert_close(after.logits, before.logits, rtol=0, atol=TOLERANCE)
    read = store.stats().bytes_read
    assert read < 0.9 * store.stats().bytes_on_disk, "only bounds and chosen pages are read"
    engine.engine.close()
    store.close()


def test_what_was_selected_can_be_seen_and_keeps_the_limits(
    tiered: Callable[..., Any], folders: Callable[[str], Path]
) -> None:
    engine = tiered(folder=folders("qwen2"), attention=FEW, context=2048).engine
    request = engine.submit(PROMPT, GREEDY)
    while engine._scheduler.running[0].num_generated < 3 if engine._scheduler.running else True:
        engine.step()
    sequence = engine._scheduler.find(request)
    selected = sequence.pages.selected
    assert sorted(selected) == [0, 1]
    for pages in selected.values():
        assert 32 // 8 - 1 <= len(pages) <= 96 // 8 - 1
        assert set(pages) <= set(sequence.pages.page_ids[1:-8])
    engine.cancel(request)


def test_there_is_room_for_the_bounds_of_the_longest_text_from_the_start(
    tiered: Callable[..., Any], folders: Callable[[str], Path]
) -> None:
    """Tables that double would stop an answer for a moment, and take twice the room."""
    engine = tiered(folder=folders("qwen2"), attention=FEW, context=1120)
    bounds = engine.engine.cache.tiers.bounds
    room = 1120 // 8 + 64 // 8 + 4
    for prompt in (PROMPT, PROMPT[1:], PROMPT[2:]):
        assert engine.answer(prompt).done.error is None
        assert bounds.boxes.shape[1] == bounds.sketches.shape[1] == room


def test_bounds_have_room_for_more_pages_than_the_longest_text_has(
    tiered: Callable[..., Any], folders: Callable[[str], Path], memory_store: Callable[..., Any]
) -> None:
    """Texts that were read one after the other, and are all kept: whatever the sizes of other tables of page ids."""
    for context in (1112, 1120, 1168, 1280):
        for tiers in ({"device_pages": 12, "host_pages": 600}, {"store": memory_store()}):
            engine = tiered(folder=folders("qwen2"), attention=FEW, context=context, **tiers)
            for start in range(4):
                assert engine.answer(PROMPT[start:], GenerationPolicy(max_tokens=2)).done.error is None


@pytest.mark.parametrize("native", [True, False])
def test_after_a_token_that_failed_no_page_is_read_twice(
    tiered: Callable[..., Any], folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    """A page is lost in the last layer, when others have weighed all pages already: the next token must not look at the
    new candidates beside pages that came since the old ones."""
    monkeypatch.setattr("octavo.engine.kv.candidates.MOST_WEIGHED", 13)  # ten turns
    engine = tiered(
        folder=folders("qwen2"), attention=FEW, context=2048, kv_codec="k8v4", device_pages=12, host_pages=300
    )
    if not native:
        engine.engine._runner._steps = None
    load_selected = Loader.load_selected
    request = engine.engine.submit(PROMPT, replace(GREEDY, max_tokens=40))
    sequence = engine.engine._scheduler.find(request)
    to_lose = {1104, 1110, 1111, 1121, 1122}

    def lose(loader: Loader, layer: int, pages: Ids) -> Ids:
        if layer == 1 and not sequence.is_prefilling and len(sequence.token_ids) - 1 in to_lose:
            to_lose.remove(len(sequence.token_ids) - 1)
            loader._lose({int(pages[0]): "it could not be read"})
        return load_selected(loader, layer, pages)

    monkeypatch.setattr(Loader, "load_selected", lose)
    events = []
    while not engine.engine.is_idle:
        events += engine.engine.step()
        if sequence.pages is not None:
            for pages in sequence.pages.selected.values():
                assert len(set(pages.tolist())) == len(pages)
    assert not to_lose
    assert events[-1].error is None


def test_as_many_pages_can_be_selected_as_pass_through_the_slots_at_once(
    tiered: Callable[..., Any], folders: Callable[[str], Path]
) -> None:
    attention = replace(FEW, dense_limit=128, floor=2048, cap=2048)
    engine = tiered(folder=folders("qwen2"), attention=attention, context=2048)
    assert engine.engine.cache.plan.cap_pages == STREAM_PAGES - 1
    assert engine.answer(PROMPT).done.error is None


@pytest.mark.parametrize("length", [1096, 1101])
def test_the_end_of_a_prompt_reads_as_much_as_a_question_may(
    tiered: Callable[..., Any], folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """With nothing to cover, pages of queries read the floor; those of the last 16 tokens all that a question may."""
    numbers: list[int] = []
    load_selected = Tiers.load_selected

    def count(tiers: Tiers, layer: int, pages: Ids) -> Ids:
        numbers.append(len(pages))
        return load_selected(tiers, layer, pages)

    monkeypatch.setattr(Tiers, "load_selected", count)
    engine = tiered(folder=folders("qwen2"), attention=FLOOR_IS_ENOUGH, context=2048)
    engine.answer(PROMPT[:length], GenerationPolicy(max_tokens=1))
    assert numbers.count(32 // 8) == 2 * (length // 8 - 256 // 8 - 16 // 8)
    assert numbers.count(128 // 8) == 2 * (-(-length // 8) - length // 8 + 16 // 8)


def test_what_a_page_holds_before_the_question_does_not_depend_on_where_the_prompt_ended(
    tiered: Callable[..., Any], folders: Callable[[str], Path]
) -> None:
    """The end of a prompt reads more than it would in a longer one, and is not what another prompt begins with."""
    settings: dict[str, Any] = {
        "folder": folders("qwen2"), "attention": FLOOR_IS_ENOUGH, "context": 2048, "kv_codec": "f32",
    }  # fmt: skip
    at_once = tiered(**settings).answer(PROMPT)
    engine = tiered(**settings)
    for length in (701, 900, 1003):
        text = length // 8 * 8 - 16
        engine.answer(PROMPT[:text] + PROMPT[: length - text])
    in_parts = engine.answer(PROMPT)
    assert in_parts.metrics.reused_tokens == 1003 // 8 * 8 - 16
    assert in_parts.tokens == at_once.tokens
    torch.testing.assert_close(in_parts.logits, at_once.logits, rtol=0, atol=TOLERANCE)


def test_pages_before_one_that_cannot_be_used_are_owned_and_nothing_else_is_counted(
    tiered: Callable[..., Any], folders: Callable[[str], Path], memory_store: Callable[..., Any]
) -> None:
    """Else they would go with whoever wrote them, and be counted as reused though they were computed."""
    settings: dict[str, Any] = {"folder": folders("qwen2"), "attention": FEW, "context": 2048, "store": memory_store()}
    store, writer = settings["store"], tiered(**settings)
    writer.answer(PROMPT, owner="a")
    writer.settle()
    identities = list(store.kept)
    store.read_problem = lambda page: "A page failed its checksum." if page.identity == identities[40] else None
    engine = tiered(**settings)
    metrics = engine.answer(PROMPT, owner="b").metrics
    assert metrics.computed_tokens == 64 + len(PROMPT) % 8, "one chunk from the bad page on, and the end"
    assert metrics.reused_tokens + metrics.computed_tokens == len(PROMPT)
    assert all(store.owners[identity] == {"a", "b"} for identity in identities[:40])
    engine.engine.forget("b")
    engine.settle()
    assert engine.answer(PROMPT[:300]).metrics.reused_device == 0
