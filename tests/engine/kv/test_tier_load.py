"""Many conversations and many turns over few pages: all finish, and every place is accounted for."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from octavo.engine.config import GenerationPolicy
from octavo.engine.events import DoneEvent
from octavo.engine.measure import peak_on_cpu
from octavo.engine.workspace import RunSizes, workspace_bytes

GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)


@pytest.mark.parametrize("budget", [{"device_pages": 40}, {"device_pages": 0}, {"device_pages": 90, "host_pages": 600}])
def test_sixteen_conversations_far_over_the_device_budget_all_finish(
    tiered: Callable[..., Any], memory_store: Callable[..., Any], budget: dict[str, int]
) -> None:
    generator = random.Random(2)
    prefix = [generator.randrange(320) for _ in range(64)]  # a system prompt that all share
    prompts = [prefix + [generator.randrange(320) for _ in range(generator.randrange(100, 260))] for _ in range(16)]
    alone = [tiered().answer(prompt).tokens for prompt in prompts]
    engine = tiered(**budget, store=memory_store(), max_sequences=6)
    requests = [engine.engine.submit(prompt, GREEDY) for prompt in prompts]
    tokens: dict[int, list[int]] = {request: [] for request in requests}
    done: dict[int, DoneEvent] = {}
    while not engine.engine.is_idle:
        for event in engine.engine.step():
            if isinstance(event, DoneEvent):
                done[event.request_id] = event
            else:
                tokens[event.request_id].append(event.token_id)
    assert [event.error for event in done.values()] == [None] * 16
    assert [tokens[request] for request in requests] == alone
    engine.settle()


def test_a_thousand_short_turns_with_cancels_leave_every_tier_as_it_was(
    tiered: Callable[..., Any], memory_store: Callable[..., Any], tmp_path: Path
) -> None:
    store = memory_store(max_pages=10_000)
    engine = tiered(device_pages=12, host_pages=40, store=store, max_sequences=2)
    generator, process, resident = random.Random(11), psutil.Process(os.getpid()), 0
    for turn in range(1000):
        start, length = generator.randrange(12), generator.randrange(1, 40)
        request = engine.engine.submit([(start + i) % 320 for i in range(length)], GREEDY, owner=f"chat-{start}")
        for _ in range(generator.randrange(5)):
            engine.engine.step()
        if generator.random() < 0.3:
            engine.engine.cancel(request)
        if generator.random() < 0.01:
            engine.engine.forget(f"chat-{generator.randrange(12)}")
        if turn % 50 == 0:
            engine.engine.cache.check_conservation()
        if turn == 300:
            resident = process.memory_info().rss
    while not engine.engine.is_idle:
        engine.engine.step()
    engine.settle()
    tiers = engine.engine.cache.tiers
    occupied = int((tiers.device.page_of_slot >= 0).sum())
    assert tiers.device.num_free + occupied == tiers.device.num_slots
    assert process.memory_info().rss <= 1.02 * resident


@pytest.mark.parametrize("codec", ["bf16", "k8v4"])
@pytest.mark.parametrize("device_pages", [0, 60])
def test_the_device_never_takes_more_than_its_budget(
    tiered: Callable[..., Any], memory_store: Callable[..., Any], codec: str, device_pages: int
) -> None:
    """The real peak of every allocation, at any length, with several conversations at once."""
    engine = tiered(device_pages=device_pages, store=memory_store(), kv_codec=codec, prefill_chunk=512).engine
    run = RunSizes(page_size=8, compute_bytes=4, max_sequences=4)
    budget = engine.cache.nbytes + workspace_bytes(engine.spec, engine.max_context, codec, run)
    fixed = engine.cache.nbytes + engine._runner.rope.nbytes + engine._runner.state_nbytes
    generator = random.Random(3)
    for length in (40, 600, 1500, 3000):
        prompts = [[generator.randrange(320) for _ in range(length)] for _ in range(4)]

        def converse(prompts: list[list[int]] = prompts) -> None:
            for prompt in prompts:
                engine.submit(prompt, GREEDY)
            while not engine.is_idle:
                assert not [event for event in engine.step() if isinstance(event, DoneEvent) and event.error]

        peak = fixed + peak_on_cpu(converse)
        assert peak <= budget, f"at {length} tokens, {peak - budget:,} bytes too many"
