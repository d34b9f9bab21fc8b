"""What codecs cost, against predictions computed by transformers, and on the small real model."""

import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from octavo.engine.config import AttentionConfig
from octavo.engine.fidelity import Variant, measure_fidelity, measure_past_trained
from octavo.engine.tokenizer import Tokenizer
from octavo.engine.weights.checkpoint import open_checkpoint

# KL against bf16 that each codec has to keep within on SmolLM2 at 2,000 to 4,000 tokens.
MOST_KL = {"k8v8": 0.0022, "k8v4": 0.0035, "k4v4": 0.006}


def ways(*codecs: Any) -> list[Variant]:
    return [Variant(codec, codec) for codec in codecs]


@pytest.fixture
def folder(make_hf_folder: Callable[..., Path]) -> Path:
    return make_hf_folder("llama", num_attention_heads=9, num_key_value_heads=3, hidden_size=144)


@pytest.fixture
def texts() -> list[list[int]]:
    return torch.randint(0, 320, (2, 230), generator=torch.Generator().manual_seed(1)).tolist()


def test_perplexity_is_that_of_transformers(folder: Path, texts: list[list[int]]) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.tensor(texts)
    with torch.inference_mode():
        log_probabilities = torch.log_softmax(model(tokens).logits.double(), dim=-1)
    surprise = -log_probabilities[:, 99:-1].gather(2, tokens[:, 100:, None])

    (plain,) = measure_fidelity(open_checkpoint(folder, quantization="none"), texts, 99, [Variant("bf16")])

    assert (plain.name, plain.positions) == ("bf16", 2 * 130)
    assert plain.perplexity == pytest.approx(math.exp(surprise.mean()), rel=2e-3)
    assert (plain.kl, plain.kl_p99, plain.top1) == (0.0, 0.0, 1.0)


def test_fewer_bits_are_further_away(folder: Path, texts: list[list[int]]) -> None:
    counts: list[int] = []
    checkpoint = open_checkpoint(folder, quantization="none")

    rows = measure_fidelity(
        checkpoint, texts, 100, ways("bf16", "k4v4", "k8v8", "k8v4"), page_size=16, done=counts.append
    )

    assert [row.name for row in rows] == ["bf16", "k4v4", "k8v8", "k8v4"]
    assert counts == list(range(1, 9))
    bf16, k4v4, k8v8, k8v4 = rows
    assert bf16.kl == 0 < k8v8.kl < k8v4.kl < k4v4.kl < 0.1
    assert 1 >= k8v8.top1 >= k4v4.top1 > 0.5
    for row in (k8v8, k8v4, k4v4):
        assert row.kl < row.kl_p99
        assert row.perplexity == pytest.approx(bf16.perplexity, rel=0.1)


def test_reading_every_page_is_dense_and_reading_few_is_not(folder: Path, texts: list[list[int]]) -> None:
    everything = AttentionConfig(dense_limit=16, window=64, floor=256, cap=256, mass_target=1.0)
    few = AttentionConfig(dense_limit=16, window=64, floor=16, cap=32, mass_target=0.1)
    variants = [Variant("dense"), Variant("everything", attention=everything), Variant("few", attention=few)]

    _, everything_row, few_row = measure_fidelity(
        open_checkpoint(folder, quantization="none"), texts, 130, variants, page_size=16, prefill_chunk=64
    )

    assert everything_row.kl < 1e-8 < few_row.kl
    assert everything_row.top1 == 1.0


def test_past_the_trained_length_the_same_tokens_are_scored(make_hf_folder: Callable[..., Path]) -> None:
    """Within it the figure is that of transformers, which reads the same parts."""
    folder = make_hf_folder("llama", max_position_embeddings=512)
    text = torch.randint(0, 320, (1024,), generator=torch.Generator().manual_seed(2))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    parts = torch.stack([text[256:768], text[512:]])
    with torch.inference_mode():
        log_probabilities = torch.log_softmax(model(parts).logits.double(), dim=-1)[:, 256:]
    predicted = log_probabilities.flatten(0, 1)[:-1]
    surprise = -predicted.gather(1, text[513:, None])
    config = AttentionConfig(window=128)

    found = measure_past_trained(
        open_checkpoint(folder, quantization="none"), text.tolist(), attention=config, prefill_chunk=64
    )

    assert found.positions == 511
    assert found.within == pytest.approx(math.exp(surprise.mean()), rel=2e-3)
    assert math.isfinite(found.beyond)


def test_a_text_is_computed_the_same_twice(folder: Path, texts: list[list[int]]) -> None:
    checkpoint = open_checkpoint(folder, quantization="none")
    assert measure_fidelity(checkpoint, texts, 9, ways("bf16", "k8v4")) == measure_fidelity(
        checkpoint, texts, 9, ways("bf16", "k8v4")
    )


@pytest.mark.model
def test_codecs_hold_their_figures_on_the_small_model(small_model: Path) -> None:
    """On a part of the bundled play that is shorter than what the bench reads, to be quick."""
    checkpoint = open_checkpoint(small_model)
    play = files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8")
    text = Tokenizer(checkpoint.tokenizer).encode(play)[500:1524]

    rows = measure_fidelity(checkpoint, [text], 512, ways("bf16", "k8v8", "k8v4", "k4v4"))

    assert {row.name: row.kl <= MOST_KL[row.name] for row in rows[1:]} == dict.fromkeys(MOST_KL, True)
