"""Decoding on a GPU: recorded steps against plain ones, and against the CPU."""

import pytest
import torch

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine
from octavo.engine.events import TokenEvent
from octavo.engine.teacher import forced_logits
from octavo.engine.weights.random_weights import random_checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]


def engine_on(device: str, codec: str) -> Engine:
    config = EngineConfig(context=512, kv_codec=codec, max_sequences=2, compute_dtype="float32")  # type: ignore[arg-type]
    return Engine(random_checkpoint("135m", device), config, device=device, fingerprint="random")


@pytest.mark.parametrize("codec", ["bf16", "k8v4"])
def test_recorded_steps_are_the_plain_ones(codec: str) -> None:
    answers = []
    for records in (True, False):
        engine = engine_on("cuda", codec)
        if not records:
            engine._runner.graphs = None
        prompt = torch.randint(49_152, (300,), generator=torch.Generator().manual_seed(0)).tolist()
        events = engine.generate(prompt, GenerationPolicy(temperature=0.0, max_tokens=80))
        answers.append([event.token_id for event in events if isinstance(event, TokenEvent)])
        if records:
            assert engine._runner.graphs is not None
            assert engine._runner.graphs.num_graphs >= 1
    assert answers[0] == answers[1]


def test_logits_are_those_of_the_cpu() -> None:
    text = torch.randint(49_152, (96,), generator=torch.Generator().manual_seed(0)).tolist()
    gpu, cpu = (torch.from_numpy(forced_logits(engine_on(device, "bf16"), text, 64)) for device in ("cuda", "cpu"))
    torch.testing.assert_close(gpu, cpu, rtol=2e-2, atol=2e-2 * float(cpu.abs().max()))
