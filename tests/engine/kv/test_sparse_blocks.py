"""Prompts that read sparsely in blocks of bfloat16, where the processor has them, and elsewhere by torch: one result
under every budget, near that of float32."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from octavo.engine.config import AttentionConfig

RANDOM = Random(4)
PROMPT = [RANDOM.randrange(320) for _ in range(1517)]
SETTINGS: dict[str, Any] = {
    "page_size": 32,
    "compute_dtype": "auto",
    "prefill_chunk": 128,
    "context": 2048,
    "attention": AttentionConfig(dense_limit=256, window=128, floor=96, cap=320, mass_target=0.8, question=64),
}


@pytest.fixture(scope="session")
def wide(make_hf_folder: Callable[..., Path]) -> Path:
    """Heads of 32 dimensions; positions past 1,024 are read closed up."""
    return make_hf_folder("qwen2", hidden_size=128, max_position_embeddings=1024)


@pytest.mark.parametrize("codec", ["bf16", "k8v4", "k4v4"])
def test_logits_are_bit_identical_under_every_budget(
    tiered: Callable[..., Any], wide: Path, memory_store: Callable[..., Any], codec: str
) -> None:
    settings = {**SETTINGS, "folder": wide, "kv_codec": codec}
    everything = tiered(**settings).answer(PROMPT)
    for budget in ({"device_pages": 6, "host_pages": 300}, {"device_pages": 0, "store": memory_store()}):
        engine = tiered(**settings, **budget)
        assert torch.equal(engine.answer(PROMPT).logits, everything.logits), budget
        engine.settle()


@pytest.mark.parametrize("page_size", [16, 32, 64])
def test_selecting_every_page_is_near_dense_attention_in_float32(
    tiered: Callable[..., Any], wide: Path, page_size: int
) -> None:
    """Pages smaller than a block are gathered first, larger ones are blocks of their own."""
    attention = AttentionConfig(dense_limit=128, window=128, floor=896, cap=896, mass_target=1.0)
    settings = {**SETTINGS, "folder": wide, "kv_codec": "k8v4", "page_size": page_size}
    found = tiered(**{**settings, "attention": attention}).answer(PROMPT[:900]).logits[0]
    dense = {"attention": AttentionConfig(), "compute_dtype": "float32", "context": 1024}
    exact = tiered(**{**settings, **dense}).answer(PROMPT[:900]).logits[0]
    assert (found - exact).abs().max() <= 0.08 * exact.abs().max()
