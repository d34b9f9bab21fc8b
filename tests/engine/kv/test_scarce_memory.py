"""Memory that is not there when it is needed: steps get smaller, an answer may end, and no page is wrong for it."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from octavo.engine.config import AttentionConfig, GenerationPolicy

GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)
RANDOM = random.Random(8)
PROMPT = [RANDOM.randrange(320) for _ in range(701)]
OTHER = [RANDOM.randrange(320) for _ in range(701)]
TOLERANCE = 1e-4  # other chunk shapes, other rounding
FEW = AttentionConfig(dense_limit=256, window=64, floor=32, cap=96, mass_target=0.9)

Tiered = Callable[..., Any]
Store = Callable[..., Any]


def test_memory_that_is_suddenly_gone_makes_smaller_steps(tiered: Tiered) -> None:
    """Another program took the memory: chunks shrink until they fit, and the answer is the same."""
    engine = tiered()
    expected = tiered().answer(PROMPT).tokens
    prefill, sizes = engine.engine._runner.prefill, []

    def scarce(token_ids: list[int], *rest: Any) -> torch.Tensor:
        if len(token_ids) > 16:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(len(token_ids))
        return prefill(token_ids, *rest)

    engine.engine._runner.prefill = scarce
    assert engine.answer(PROMPT).tokens == expected
    assert max(sizes) == 16
    engine.settle()


def test_no_memory_at_all_is_said_in_one_sentence_and_costs_nothing_else(tiered: Tiered) -> None:
    engine = tiered()
    decode = engine.engine._runner.decode

    def nothing(*_: object) -> torch.Tensor:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes")

    engine.engine._runner.decode = nothing
    run = engine.answer(PROMPT)
    assert run.done.finish_reason == "error"
    assert run.done.error.startswith("Memory ran out, even for the smallest step")
    assert len(run.tokens) == 1
    engine.engine._runner.decode = decode
    assert engine.answer(PROMPT).tokens == tiered().answer(PROMPT).tokens
    engine.settle()


@pytest.mark.parametrize("copy", range(0, 24, 4))
@pytest.mark.parametrize("attention", [AttentionConfig(), FEW])
@pytest.mark.parametrize("has_host", [False, True])
def test_a_page_that_memory_ran_out_for_while_it_was_copied_up_is_not_taken_for_there(
    tiered: Tiered, memory_store: Store, has_host: bool, attention: AttentionConfig, copy: int
) -> None:
    """The slots it was to have held another page's bytes, and the rows it was read into were never given back."""
    settings: dict[str, Any] = {"attention": attention, "context": 1024, "store": memory_store()}
    tiered(**settings).answer(PROMPT)
    engine = tiered(**settings, device_pages=40, host_pages=60 if has_host else 0)
    engine.answer(OTHER)
    engine.settle()
    write, copies = engine.engine.cache.tiers.device.write, 0

    def scarce(slots: Any, encoded: torch.Tensor) -> None:
        nonlocal copies
        copies += 1
        if copies == copy + 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        write(slots, encoded)

    engine.engine.cache.tiers.device.write = scarce
    expected = tiered(attention=attention, context=1024).answer(PROMPT)
    runs = [engine.answer(PROMPT) for _ in range(2)]
    assert copies > copy
    for run in runs:
        if run.done.error is None:
            assert run.tokens == expected.tokens
    assert runs[1].done.error is None
    torch.testing.assert_close(runs[1].logits[-12:], expected.logits[-12:], rtol=0, atol=TOLERANCE)
    engine.settle()
