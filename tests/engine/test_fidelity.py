"""What codecs cost, against predictions computed by transformers, and on the small real model."""

import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from octavo.engine.fidelity import measure_fidelity
from octavo.engine.tokenizer import Tokenizer
from octavo.engine.weights.checkpoint import open_checkpoint

# KL against bf16 that each codec has to keep within on SmolLM2 at 2,000 to 4,000 tokens.
MOST_KL = {"k8v8": 0.0022, "k8v4": 0.0035, "k4v4": 0.006}


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

    (plain,) = measure_fidelity(open_checkpoint(folder, quantization="none"), texts, 99, [])

    assert (plain.codec, plain.positions) == ("bf16", 2 * 130)
    assert plain.perplexity == pytest.approx(math.exp(surprise.mean()), rel=2e-3)
    assert (plain.kl, plain.kl_p99, plain.top1) == (0.0, 0.0, 1.0)


def test_fewer_bits_are_further_away(folder: Path, texts: list[list[int]]) -> None:
    counts: list[int] = []
    checkpoint = open_checkpoint(folder, quantization="none")

    rows = measure_fidelity(checkpoint, texts, 100, ["k4v4", "k8v8", "k8v4"], page_size=16, done=counts.append)

    assert [row.codec for row in rows] == ["bf16", "k4v4", "k8v8", "k8v4"]
    assert counts == list(range(1, 9))
    bf16, k4v4, k8v8, k8v4 = rows
    assert bf16.kl == 0 < k8v8.kl < k8v4.kl < k4v4.kl < 0.1
    assert 1 >= k8v8.top1 >= k4v4.top1 > 0.5
    for row in (k8v8, k8v4, k4v4):
        assert row.kl < row.kl_p99
        assert row.perplexity == pytest.approx(bf16.perplexity, rel=0.1)


def test_a_text_is_computed_the_same_twice(folder: Path, texts: list[list[int]]) -> None:
    checkpoint = open_checkpoint(folder, quantization="none")
    assert measure_fidelity(checkpoint, texts, 9, ["k8v4"]) == measure_fidelity(checkpoint, texts, 9, ["k8v4"])


@pytest.mark.model
def test_codecs_hold_their_figures_on_the_small_model(small_model: Path) -> None:
    """On a part of the bundled play that is shorter than what the bench reads, to be quick."""
    checkpoint = open_checkpoint(small_model)
    play = files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8")
    text = Tokenizer(checkpoint.tokenizer).encode(play)[500:1524]

    rows = measure_fidelity(checkpoint, [text], 512, ["k8v8", "k8v4", "k4v4"])

    assert {row.codec: row.kl <= MOST_KL[row.codec] for row in rows[1:]} == dict.fromkeys(MOST_KL, True)
