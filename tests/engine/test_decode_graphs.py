"""Recorded decode steps without a GPU: what is replayed is computed again here, into the same tensor."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.decode_graphs import MOST_GRAPHS, DecodeGraphs, StepInput
from octavo.engine.engine import Engine, load
from octavo.engine.events import TokenEvent


def compute_again(step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    hidden = step().clone()

    def replay() -> None:
        hidden.copy_(step())

    return replay, hidden


def answers(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    policy = GenerationPolicy(temperature=0.0, max_tokens=40)
    ids = [engine.submit(prompt, policy) for prompt in prompts]
    found: dict[int, list[int]] = {request: [] for request in ids}
    while not engine.is_idle:
        for event in engine.step():
            if isinstance(event, TokenEvent):
                found[event.request_id].append(event.token_id)
    return [found[request] for request in ids]


@pytest.mark.parametrize("codec", ["bf16", "k8v4"])
def test_recorded_steps_give_the_same_answers(make_hf_folder: Callable[..., Path], codec: Any) -> None:
    config = EngineConfig(page_size=8, prefill_chunk=32, context=256, kv_codec=codec)
    folder = make_hf_folder("llama")
    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(320, (length,), generator=generator).tolist() for length in (5, 60, 61, 150)]
    expected = answers(load(folder, config), prompts)

    engine = load(folder, config)
    runner = engine._runner
    runner.graphs = DecodeGraphs(runner._decoder, runner._setup, runner._state, compute_again)
    assert answers(engine, prompts) == expected
    assert runner.graphs.num_graphs > 1


def test_a_thousand_lengths_need_few_graphs() -> None:
    made: list[tuple[int, ...]] = []

    def capture(step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        made.append(())
        return (lambda: None), torch.zeros(1, 1)

    pool = SimpleNamespace(
        page_size=32,
        num_layers=1,
        slots=np.zeros((1, 2000), dtype=np.int32),
        num_resident=np.ones(2000, dtype=np.int32),
        slab=torch.zeros(1),
        tail_slots=lambda tails: torch.zeros(1, len(tails), dtype=torch.int32),
    )
    plan = SimpleNamespace(is_dense=lambda position: True)
    tiers = SimpleNamespace(counters=SimpleNamespace(layer_reads=0))
    setup: Any = SimpleNamespace(pool=pool, plan=plan, tiers=tiers)
    graphs = DecodeGraphs(None, setup, None, capture)  # type: ignore[arg-type]
    pages: Any = SimpleNamespace(tail=0, page_ids=[])
    for length in range(32, 32_032, 32):  # 1,000 lengths of a page each
        pages.page_ids.append(length // 32)
        assert graphs.decode([1], [length], [pages]) is not None
    assert graphs.num_graphs == len(made) == 8, "8 to 1,024 pages, in powers of two"
    pages.page_ids = [1]
    for rows in range(1, 100):
        graphs.decode([1] * rows, [40] * rows, [pages] * rows)
    assert graphs.num_graphs == MOST_GRAPHS


def test_a_step_that_cannot_be_recorded_is_said_once(
    make_hf_folder: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    config = EngineConfig(page_size=8, prefill_chunk=32, context=256)
    folder = make_hf_folder("llama")
    expected = answers(load(folder, config), [[1, 2, 3]])
    engine = load(folder, config)
    runner = engine._runner
    runner.graphs = DecodeGraphs(runner._decoder, runner._setup, runner._state, fail)
    assert answers(engine, [[1, 2, 3]]) == expected
    assert caplog.text.count("decoding without CUDA graphs") == 1


def test_inputs_are_copied_whole() -> None:
    first, second = (StepInput(*(torch.full((2,), value) for _ in range(6))) for value in (1, 2))
    first.copy_(second)
    assert all(torch.equal(getattr(first, name), torch.tensor([2, 2])) for name in StepInput.__slots__)
