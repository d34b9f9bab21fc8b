"""Disks that fail, answers that are cut off, pages that are not what they seem: nothing is wrong silently.

Several of these were reported against other engines; the report is named where there is one.
"""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from octavo.engine.config import GenerationPolicy
from octavo.engine.errors import OutOfPagesError
from octavo.engine.events import DoneEvent

GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)
RANDOM = random.Random(8)
PROMPT = [RANDOM.randrange(320) for _ in range(701)]
OTHER = [RANDOM.randrange(320) for _ in range(701)]
TOLERANCE = 1e-4  # other chunk shapes, other rounding
FULL = "The page store is full."

Tiered = Callable[..., Any]
Store = Callable[..., Any]


def test_a_row_is_not_reused_before_its_page_is_written(tiered: Tiered, memory_store: Store) -> None:
    """vllm#45704: a page whose copy had not ended was given to somebody else."""
    reference = memory_store()
    ample = tiered(store=reference, kv_codec="k8v4")
    for prompt in (PROMPT, OTHER):
        ample.answer(prompt)
    ample.settle()

    slow = memory_store()
    slow.gate.clear()
    engine = tiered(device_pages=2, store=slow, kv_codec="k8v4", max_sequences=1)
    assert engine.engine.cache.tiers.host.num_rows < len(PROMPT) // 8, "rows must be reused while pages are waiting"
    threading.Timer(0.3, slow.gate.set).start()
    for prompt in (PROMPT, OTHER):
        engine.answer(prompt)
    engine.settle()
    assert engine.engine.cache.tiers.counters.stalls > 0
    assert {identity: page.data for identity, page in slow.kept.items()} == {
        identity: page.data for identity, page in reference.kept.items()
    }


def test_decoding_does_not_wait_for_a_write(tiered: Tiered, memory_store: Store) -> None:
    store = memory_store()
    store.gate.clear()
    engine = tiered(device_pages=200, store=store)
    run = engine.answer(PROMPT[:40], GenerationPolicy(temperature=0.0, max_tokens=60))
    assert run.done.finish_reason == "length"
    assert store.num_writes == 0
    assert engine.engine.cache.tiers.counters.stalls == 0
    store.gate.set()
    engine.settle()
    assert store.num_writes == 99 // 8


def test_a_page_with_other_tokens_is_never_served(tiered: Tiered, memory_store: Store) -> None:
    """LMCache#4385, openvino.genai#3722: another conversation's KV, or the same hash over other tokens."""
    store = memory_store()
    engine = tiered(store=store)
    engine.answer(PROMPT)
    engine.settle()
    for identity, page in list(store.kept.items()):
        other = tuple(reversed(page.token_ids))
        store.kept[identity] = type(page)(identity, other, page.data, page.num_layers)
    fresh = tiered(store=store).answer(PROMPT)
    assert fresh.metrics.reused_tokens == 0
    assert torch.equal(fresh.logits, tiered().answer(PROMPT).logits)


@pytest.mark.parametrize(
    "change", [{"fingerprint": "other weights"}, {"kv_codec": "k8v8"}, {"page_size": 16}, {"compute_dtype": "bfloat16"}]
)
def test_pages_of_other_weights_or_settings_are_never_used(
    tiered: Tiered, memory_store: Store, change: dict[str, Any]
) -> None:
    """sglang#24758: pages were reused across different weights."""
    store = memory_store()
    engine = tiered(store=store)
    engine.answer(PROMPT)
    engine.settle()
    assert len(store.kept) == (len(PROMPT) + 11) // 8
    assert tiered(store=store, **change).answer(PROMPT).metrics.reused_tokens == 0
    assert tiered(store=store).answer(PROMPT).metrics.reused_tokens == 700 // 8 * 8


@pytest.mark.parametrize("after_steps", range(6))
def test_an_answer_cancelled_while_its_pages_load_leaks_none(
    tiered: Tiered, memory_store: Store, after_steps: int
) -> None:
    """vllm#46283: blocks were leaked when an answer was aborted during a load."""
    store = memory_store()
    first = tiered(store=store)
    first.answer(PROMPT[:400])
    first.settle()
    engine = tiered(device_pages=4, host_pages=30, store=store)
    request = engine.engine.submit(PROMPT, GREEDY)
    for _ in range(after_steps):
        engine.engine.step()
    engine.engine.cancel(request)
    engine.engine.step()
    engine.settle()
    found, expected = engine.answer(PROMPT[:640]), tiered().answer(PROMPT[:640])
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("device_pages", [0, 5, 200])
@pytest.mark.parametrize("bad", [0, 3, 40])
def test_a_page_that_cannot_be_read_back_is_computed_again(
    tiered: Tiered, memory_store: Store, bad: int, device_pages: int
) -> None:
    """llama.cpp#27052: a failed restore poisoned later answers. Here it costs time, is told once, and is over."""
    store = memory_store()
    first = tiered(store=store)
    first.answer(PROMPT)
    first.settle()
    identities = list(store.kept)
    store.read_problem = lambda page: "A page failed its checksum." if page.identity == identities[bad] else None
    engine = tiered(device_pages=device_pages, store=store)
    expected = tiered().answer(PROMPT)
    for _ in range(2):
        found = engine.answer(PROMPT)
        assert found.tokens == expected.tokens
        torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=TOLERANCE)
        store.read_problem = lambda page: None
    assert engine.engine.take_problems() == ["A page failed its checksum."]
    assert engine.engine.take_problems() == []
    engine.settle()
    assert identities[bad] in store.kept, "it was written down again"


def test_a_page_lost_while_an_answer_runs_is_computed_again(tiered: Tiered, memory_store: Store) -> None:
    """The store fails after the first tokens: the answer goes on, with the same tokens."""
    store = memory_store()
    engine = tiered(device_pages=0, store=store)
    expected = tiered().answer(PROMPT).tokens
    events, tokens = engine.engine.generate(PROMPT, GREEDY), []
    for event in events:
        if isinstance(event, DoneEvent):
            assert event.finish_reason == "length", event.error
            assert event.metrics.computed_tokens > len(PROMPT)
            continue
        tokens.append(event.token_id)
        if len(tokens) == 4:
            engine.engine.cache.tiers.drain()
            for row in range(engine.engine.cache.tiers.host.num_rows):
                page = int(engine.engine.cache.tiers.host.page_of_row[row])
                if page >= 0:
                    engine.engine.cache.tiers.host.vacate(page)
            store.read_problem = fails_once()
    assert tokens == expected
    assert engine.engine.take_problems() == ["The disk does not answer."]
    engine.settle()


def fails_once() -> Callable[[Any], str | None]:
    problems = ["The disk does not answer."]
    return lambda page: problems.pop() if problems else None


def test_a_disk_that_never_reads_back_ends_the_answer_and_not_the_engine(tiered: Tiered, memory_store: Store) -> None:
    store = memory_store()
    engine = tiered(device_pages=0, store=store, max_sequences=1)
    store.read_problem = lambda page: "The disk does not answer."
    run = engine.answer(PROMPT)
    assert run.done.finish_reason == "error"
    assert "cannot be read back: The disk does not answer." in run.done.error
    store.read_problem = lambda page: None
    engine.settle()
    assert engine.answer(PROMPT).tokens == tiered().answer(PROMPT).tokens


def test_a_full_disk_is_told_once_and_is_not_a_dead_end(tiered: Tiered, memory_store: Store) -> None:
    """DingoCache#83: after the disk had been full, nothing was ever kept again."""
    store = memory_store()
    store.write_problem = lambda page: FULL
    engine = tiered(device_pages=300, store=store)
    expected = tiered().answer(PROMPT)
    found = engine.answer(PROMPT)
    engine.settle()
    assert torch.equal(found.logits, expected.logits)
    assert engine.engine.take_problems() == [FULL]
    assert not store.kept
    store.write_problem = lambda page: None
    engine.answer(OTHER)
    engine.settle()
    assert len(store.kept) == (len(OTHER) + 11) // 8


def test_a_full_disk_and_no_room_elsewhere_ends_the_answer_in_one_sentence(tiered: Tiered, memory_store: Store) -> None:
    store = memory_store()
    store.write_problem = lambda page: FULL
    engine = tiered(device_pages=2, store=store, max_sequences=1)
    run = engine.answer(PROMPT)
    assert run.done.finish_reason == "error"
    assert "none can be written down" in run.done.error
    engine.settle()
    store.write_problem = lambda page: None
    assert engine.answer(PROMPT).tokens == tiered().answer(PROMPT).tokens
    engine.settle()


def test_a_full_host_tier_without_a_disk_gives_up_what_nobody_reads(tiered: Tiered) -> None:
    engine = tiered(device_pages=4, host_pages=90)
    for start in range(6):
        assert engine.answer(PROMPT[start:]).done.finish_reason == "length"
        engine.settle()


def test_a_store_that_only_reads_serves_what_it_has(tiered: Tiered, memory_store: Store) -> None:
    store = memory_store()
    first = tiered(store=store)
    first.answer(PROMPT)
    first.settle()
    before = dict(store.kept)
    store.writable = False
    engine = tiered(store=store)
    run = engine.answer(PROMPT + OTHER[:80])
    assert run.metrics.reused_disk == 700 // 8 * 8
    assert run.tokens == tiered().answer(PROMPT + OTHER[:80]).tokens
    engine.settle()
    assert store.kept == before


def test_forgetting_an_owner_drops_its_pages_from_every_tier(tiered: Tiered, memory_store: Store) -> None:
    store = memory_store()
    engine = tiered(device_pages=20, host_pages=60, store=store)
    shared = PROMPT[:160]
    engine.answer(shared + OTHER, owner="a")
    engine.answer(shared + PROMPT[200:500], owner="b")
    engine.engine.forget("a")
    engine.settle()
    assert engine.answer(shared + OTHER, owner="c").metrics.reused_tokens == 160
    assert engine.answer(shared + PROMPT[200:500], owner="c").metrics.reused_tokens >= 160 + 300 - 8
    assert all("a" not in owners for identity, owners in store.owners.items() if identity in store.kept)


def test_forgetting_ends_the_owners_answers_and_no_others(tiered: Tiered, memory_store: Store) -> None:
    store = memory_store()
    engine = tiered(device_pages=5, store=store)
    requests = {owner: engine.engine.submit(PROMPT[:300], GREEDY, owner=owner) for owner in ("a", "b")}
    for _ in range(14):
        engine.engine.step()
    engine.engine.forget("a")
    done: dict[int, str] = {}
    while not engine.engine.is_idle:
        done |= {
            event.request_id: event.finish_reason for event in engine.engine.step() if isinstance(event, DoneEvent)
        }
    assert done == {requests["a"]: "cancelled", requests["b"]: "length"}
    engine.settle()
    assert engine.answer(PROMPT[:300], owner="b").metrics.reused_tokens == 296
    engine.engine.forget("b")
    engine.settle()
    assert engine.answer(PROMPT[:300]).metrics.reused_tokens == 0


def test_a_pool_without_places_says_so(tiered: Tiered) -> None:
    engine = tiered(device_pages=4).engine
    pages = engine.cache.open([1], "test")
    with pytest.raises(OutOfPagesError, match="All 4 KV pages are in use"):
        engine.cache.begin_chunk(pages, 5)
    engine.cache.close(pages)
    engine.cache.check_conservation()
