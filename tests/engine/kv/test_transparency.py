"""What an answer is does not depend on where its pages are: bit-identical logits under every budget."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.storage.pages import open_store

CODECS = ["f32", "bf16", "k8v8", "k8v4", "k4v4"]
PROMPT = [random.Random(4).randrange(320) for _ in range(1300)]  # 162 pages: three groups of 64
NUM_PAGES = len(PROMPT) // 8


@pytest.mark.parametrize("codec", CODECS)
def test_logits_are_bit_identical_under_every_budget(
    tiered: Callable[..., Any], memory_store: Callable[..., Any], codec: str
) -> None:
    everything = tiered(kv_codec=codec).answer(PROMPT)
    budgets: list[dict[str, Any]] = [
        {"device_pages": NUM_PAGES + 8, "host_pages": 300, "store": memory_store()},
        {"device_pages": NUM_PAGES // 10, "host_pages": 300},
        {"device_pages": NUM_PAGES // 10, "store": memory_store()},
        {"device_pages": NUM_PAGES // 10, "host_pages": 40, "store": memory_store()},
        {"device_pages": 0, "host_pages": 300},
        {"device_pages": 0, "store": memory_store()},
    ]
    for budget in budgets:
        engine = tiered(kv_codec=codec, **budget)
        found = engine.answer(PROMPT)
        assert found.done.error is None
        assert found.tokens == everything.tokens
        assert torch.equal(found.logits, everything.logits), budget
        engine.settle()
        if budget["device_pages"] < NUM_PAGES:
            assert engine.engine.cache.tiers.counters.streamed_layers > 0, "the budget was not tight at all"


@pytest.mark.parametrize("codec", CODECS)
def test_a_second_turn_gives_what_a_cold_run_gives(
    tiered: Callable[..., Any], memory_store: Callable[..., Any], codec: str
) -> None:
    """At equal chunk shapes: the second turn begins where the cold run has a chunk boundary."""
    first = PROMPT[:640]
    for budget in ({}, {"device_pages": 10, "host_pages": 300}, {"device_pages": 3, "store": memory_store()}):
        engine = tiered(kv_codec=codec, **budget)
        engine.answer(first)
        second = first + PROMPT[:101]
        warm = engine.answer(second)
        assert warm.metrics.reused_tokens == 640
        cold = tiered(kv_codec=codec).answer(second)
        assert torch.equal(warm.logits, cold.logits), budget


@pytest.mark.parametrize("codec", CODECS)
def test_after_a_restart_the_pages_are_the_same_bytes_and_the_logits_agree(
    tiered: Callable[..., Any], tmp_path: Path, codec: str
) -> None:
    store = open_store(tmp_path / "pages", 1 << 28)
    engine = tiered(kv_codec=codec, store=store)
    before = engine.answer(PROMPT)
    cache = engine.engine.cache
    pages = cache.table.match(PROMPT[:-1])
    written = [bytes(cache.pool.slab[cache.pool.slots[:, page]].numpy()) for page in pages]
    cache.table.release(pages)
    engine.engine.close()
    store.close()

    store = open_store(tmp_path / "pages", 1 << 28)
    engine = tiered(kv_codec=codec, store=store)
    after = engine.answer(PROMPT)
    assert after.metrics.reused_disk == NUM_PAGES * 8
    assert after.metrics.computed_tokens == len(PROMPT) - NUM_PAGES * 8
    cache = engine.engine.cache
    pages = cache.table.match(PROMPT[:-1])
    assert [bytes(cache.pool.slab[cache.pool.slots[:, page]].numpy()) for page in pages] == written
    cache.table.release(pages)
    assert after.tokens == before.tokens
    torch.testing.assert_close(after.logits, before.logits, rtol=0, atol=1e-4)
    engine.settle()
    engine.engine.close()
    store.close()


def test_where_reused_tokens_came_from_is_told(tiered: Callable[..., Any], memory_store: Callable[..., Any]) -> None:
    store = memory_store()
    engine = tiered(device_pages=20, host_pages=100, store=store)
    prompt = PROMPT[:800]
    engine.answer(prompt)
    metrics = engine.answer([*prompt, 1, 2, 3]).metrics
    assert metrics.reused_tokens == metrics.reused_device + metrics.reused_host + metrics.reused_disk == 800
    assert metrics.reused_device > 0
    assert metrics.reused_host > 0
    assert metrics.computed_tokens == 3
    engine.settle()
    again = tiered(device_pages=20, host_pages=100, store=store).answer([*prompt, 1, 2, 3]).metrics
    assert (again.reused_device, again.reused_host, again.reused_disk) == (0, 0, 800)
