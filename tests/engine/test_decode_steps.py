"""Decode steps in C are those of the decoder, to the bit: dense and sparse, several sequences, every kind of layer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.config import AttentionConfig, EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine, load
from octavo.engine.kernels.dispatch import load_kernels

CONFIG = EngineConfig(page_size=8, prefill_chunk=32, context=256, max_sequences=4)
SPARSE = AttentionConfig(dense_limit=64, window=32, floor=16, cap=32)


def hidden_states(engine: Engine, lengths: tuple[int, ...], tokens: int = 20) -> list[Tensor]:
    """Of every decode step, while prompts of these lengths are answered together."""
    generator = torch.Generator().manual_seed(0)
    policy = GenerationPolicy(temperature=0.0, max_tokens=tokens)
    found: list[Tensor] = []
    decode = engine._runner.decode

    def listen(*arguments: Any) -> Tensor:
        hidden = decode(*arguments)
        found.append(hidden.clone())
        return hidden

    engine._runner.decode = listen  # type: ignore[method-assign]
    for length in lengths:
        engine.submit(torch.randint(320, (length,), generator=generator).tolist(), policy)
    while not engine.is_idle:
        engine.step()
    return found


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, kv_codec="k8v4"),
        replace(CONFIG, kv_codec="k4v4", attention=SPARSE),
        replace(CONFIG, compute_dtype="float32"),
    ],
    ids=["bf16", "k8v4", "sparse", "float32"],
)
def test_steps_are_the_decoders(make_hf_folder: Callable[..., Path], family: str, config: EngineConfig) -> None:
    folder = make_hf_folder(family)
    engine, plain = load(folder, config), load(folder, config)
    assert engine._runner._steps is not None
    plain._runner._steps = None
    got, expected = hidden_states(engine, (5, 60, 61, 150)), hidden_states(plain, (5, 60, 61, 150))
    assert len(got) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize("trained", [128, 512])
def test_steps_look_again_at_the_pages_that_the_decoder_looks_at_again(
    make_hf_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, trained: int
) -> None:
    """Past the trained length and within it, with several times as many pages as a layer looks at closely."""
    folder = make_hf_folder("qwen2", max_position_embeddings=trained)
    config = replace(CONFIG, kv_codec="k8v4", attention=SPARSE, context=512)
    engine, plain = load(folder, config), load(folder, config)
    plain._runner._steps = None
    layers: list[int] = []
    select_again = AttentionSetup.select_again

    def listen(setup: AttentionSetup, layer: int, *arguments: Any) -> Any:
        layers.append(layer)
        return select_again(setup, layer, *arguments)

    monkeypatch.setattr(AttentionSetup, "select_again", listen)
    monkeypatch.setattr("octavo.engine.kv.candidates.MOST_WEIGHED", 20)  # of some 45: they take three turns
    got = hidden_states(engine, (400,))
    assert not layers
    expected = hidden_states(plain, (400,))
    later = range(401, 400 + len(expected))  # at the position 400 nothing was weighed yet
    assert len(layers) == sum((position + layer) % 3 != 0 for position in later for layer in (0, 1))
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize("slots", [None, 12], ids=["on the device", "few on the device"])
@pytest.mark.parametrize("far_positions", ["closed up", "one angle"])
def test_one_sequence_that_selects(make_hf_folder: Callable[..., Path], far_positions: Any, slots: int | None) -> None:
    """Far past the trained length of 256, and where what a layer selects has to be loaded first."""
    folder = make_hf_folder("llama")
    attention = replace(SPARSE, far_positions=far_positions, dense_limit=96)
    config = replace(CONFIG, kv_codec="k8v4", attention=attention, context=700, host_bytes=2**22)
    if slots is not None:
        least = load(folder, config).cache
        config = replace(config, kv_bytes=least.nbytes * 2 // 5)
    found = []
    for is_native in (True, False):
        engine = load(folder, config)
        if not is_native:
            engine._runner._steps = None
        states = hidden_states(engine, (90,), 30) + hidden_states(engine, (400,), 20)
        counters = engine.cache.tiers.counters
        found.append((states, counters.layer_reads, counters.streamed_layers > 0))
    (got, *counts), (expected, *expected_counts) = found
    assert counts == expected_counts
    assert len(got) == len(expected) > 40
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))
    assert counts[1] == (slots is not None)


def test_other_kernels_decode_without(make_hf_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.engine.load_kernels", lambda device: load_kernels(device, "torch"))
    assert load(make_hf_folder("llama"), CONFIG)._runner._steps is None


def test_a_slot_that_is_not_there(make_hf_folder: Callable[..., Path]) -> None:
    """The C code reads what tensors say; what they say is checked."""
    engine = load(make_hf_folder("llama"), CONFIG)
    request = engine.submit([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], GenerationPolicy(max_tokens=4))
    engine.step()
    (sequence,) = engine.sequences
    assert sequence.request_id == request
    pages = sequence.running_pages
    pages.tail = 1000
    with pytest.raises(ValueError, match="slot"):
        engine._runner.decode([1], [10], [pages])
