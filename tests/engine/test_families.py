"""Every family against transformers, in float32: tiny random weights, prefill in chunks and decoding by pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from octavo.engine.config import EngineConfig
from octavo.engine.kernels.dispatch import load_kernels
from octavo.engine.kv.cache import KvCache
from octavo.engine.runner import ModelRunner
from octavo.engine.weights.checkpoint import open_checkpoint

TOLERANCE = 1e-4
LENGTH, PROMPT = 150, 109

SCALINGS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "linear": {"rope_type": "linear", "factor": 2.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
}
HEADS = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 144}


def paged_logits(path: Path, token_ids: list[int], *, page_size: int, chunk: int, kernels: str) -> torch.Tensor:
    """Logits at every position: PROMPT tokens prefilled in chunks, the others decoded one by one."""
    checkpoint = open_checkpoint(path, quantization="none")
    config = EngineConfig(page_size=page_size, kv_codec="f32", compute_dtype="float32")
    ops = load_kernels("cpu", kernels)  # type: ignore[arg-type]
    cache = KvCache(checkpoint.spec, config, ops, "test", "cpu")
    runner = ModelRunner(checkpoint, ops, cache, len(token_ids), torch.float32)
    pages = cache.open(token_ids, "test")
    hidden = []
    for start in range(0, PROMPT, chunk):
        end = min(start + chunk, PROMPT)
        cache.begin_chunk(pages, (end - start) // page_size)
        hidden.append(runner.prefill(token_ids[start:end], start, pages))
        cache.publish(pages, token_ids, end)
    for position in range(PROMPT, len(token_ids)):
        hidden.append(runner.decode([token_ids[position]], [position], [pages]))
        cache.publish(pages, token_ids, position + 1)
    return runner.logits(torch.cat(hidden))


@pytest.mark.parametrize("kernels", ["torch", "auto"])
@pytest.mark.parametrize(
    ("family", "scaling", "config"),
    [
        ("llama", "none", {}),
        ("llama", "none", HEADS),
        ("llama", "linear", {}),
        ("llama", "llama3", {}),
        ("llama", "yarn", {}),
        ("llama", "none", {"tie_word_embeddings": True}),
        ("mistral", "none", {"head_dim": 32}),
        ("qwen2", "none", {}),
        ("qwen2", "yarn", {"tie_word_embeddings": True}),
        ("qwen3", "none", {"head_dim": 32}),
        ("qwen3", "linear", {"tie_word_embeddings": True}),
    ],
)
def test_logits_are_those_of_transformers(
    make_hf_folder: Callable[..., Path], family: str, scaling: str, config: dict[str, Any], kernels: str
) -> None:
    folder = make_hf_folder(family, rope_scaling=SCALINGS[scaling], **config)
    generator = torch.Generator().manual_seed(7)
    token_ids = torch.randint(0, 320, (LENGTH,), generator=generator)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        expected = model(token_ids[None]).logits[0]
        found = paged_logits(folder, token_ids.tolist(), page_size=16, chunk=48, kernels=kernels)
    assert expected.std() > 0.1, "the reference must have something to say"
    assert (found - expected).abs().max() <= TOLERANCE


def test_page_size_and_chunk_do_not_change_what_is_computed(make_hf_folder: Callable[..., Path]) -> None:
    folder = make_hf_folder("qwen2")
    token_ids = torch.randint(0, 320, (LENGTH,), generator=torch.Generator().manual_seed(3)).tolist()
    with torch.inference_mode():
        runs = [
            paged_logits(folder, token_ids, page_size=page_size, chunk=chunk, kernels="auto")
            for page_size, chunk in [(8, 8), (16, 64), (32, 128)]
        ]
    for other in runs[1:]:
        torch.testing.assert_close(other, runs[0], rtol=0, atol=TOLERANCE)
