from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.engine.errors import ModelFileError
from octavo.engine.measure import measure_memory
from octavo.engine.planner import (
    CODECS,
    PlainSizes,
    automatic_kv_bytes,
    kv_bytes,
    plan_memory,
    read_model,
    workspace_bytes,
)
from octavo.engine.weights.checkpoint import open_checkpoint

LLAMA_8B = PlainSizes(
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=14_336,
    vocab_size=128_256,
)


@pytest.mark.parametrize(
    ("codec", "bytes_per_pair"),
    [
        # 128 values of K and of V. In groups of 32, each group adds a float16 scale and a float16 zero.
        ("bf16", 128 * 2 + 128 * 2),
        ("k8v8", (128 + 4 * 4) + (128 + 4 * 4)),
        ("k8v4", (128 + 4 * 4) + (64 + 4 * 4)),
        ("k4v4", (64 + 4 * 4) + (64 + 4 * 4)),
    ],
)
def test_kv_is_layers_times_heads_times_tokens(codec: str, bytes_per_pair: int) -> None:
    plan = {plan.codec: plan for plan in plan_memory(LLAMA_8B, 5_000_000_000, 8192)}[codec]
    assert plan.kv == 32 * 8 * 8192 * bytes_per_pair


def test_the_published_size_of_llama_3_8b_kv() -> None:
    """128 KiB a token in 16 bits, so 1 GiB at 8,192 tokens."""
    assert plan_memory(LLAMA_8B, 0, 8192)[0].kv == 2**30


def test_a_head_that_is_no_multiple_of_a_group_has_one_group_more() -> None:
    sizes = PlainSizes(1, 80, 1, 1, 80, 160, 100)
    k8v8 = next(codec for codec in CODECS if codec.name == "k8v8")
    assert k8v8.token_bytes(80) == 2 * (80 + 3 * 4)
    assert kv_bytes(sizes, 32, k8v8) == 32 * 2 * (80 + 3 * 4)


@given(st.integers(1, 100_000), st.sampled_from([8, 32, 256]), st.sampled_from(CODECS))
def test_kv_is_in_whole_pages(context: int, page_size: int, codec: object) -> None:
    page = kv_bytes(LLAMA_8B, page_size, codec, page_size)  # type: ignore[arg-type]
    total = kv_bytes(LLAMA_8B, context, codec, page_size)  # type: ignore[arg-type]
    assert total % page == 0
    assert total - page < page * context / page_size <= total


@given(st.integers(1, 50_000), st.integers(1, 50_000))
def test_more_context_never_needs_less(first: int, second: int) -> None:
    low, high = sorted((first, second))
    assert workspace_bytes(LLAMA_8B, low) <= workspace_bytes(LLAMA_8B, high)


def test_a_total_is_the_sum_of_its_parts() -> None:
    for plan in plan_memory(LLAMA_8B, 5_000_000_000, 1000):
        assert plan.weights == 5_000_000_000
        assert plan.total == plan.weights + plan.kv + plan.workspace


@pytest.mark.parametrize(
    ("family", "formats"),
    [("llama", "Q8_0"), ("qwen2", "Q4_1"), ("qwen3", {"default": "Q5_0", "token_embd.weight": "F16"})],
)
def test_weights_of_a_gguf_file_are_those_held_after_loading(
    make_hf_folder: Callable[..., Path], make_gguf: Callable[..., Path], family: str, formats: object
) -> None:
    path = make_gguf(make_hf_folder(family), formats)
    checkpoint = open_checkpoint(path)

    assert read_model(path) == (checkpoint.spec, checkpoint.nbytes)


@pytest.mark.parametrize("quantization", ["auto", "int8", "int4", "nf4", "none"])
def test_weights_of_a_folder_are_those_held_after_loading(
    make_hf_folder: Callable[..., Path], quantization: str
) -> None:
    folder = make_hf_folder("qwen2", dtype=torch.bfloat16)
    checkpoint = open_checkpoint(folder, quantization=quantization)  # type: ignore[arg-type]

    assert read_model(folder, quantization=quantization) == (  # type: ignore[arg-type]
        checkpoint.spec,
        checkpoint.nbytes,
    )


def test_rows_that_make_no_blocks_are_held_in_bfloat16(make_hf_folder: Callable[..., Path]) -> None:
    folder = make_hf_folder("llama", intermediate_size=100)
    assert read_model(folder)[1] == open_checkpoint(folder).nbytes


def test_a_folder_on_cuda_is_planned_without_cuda(make_hf_folder: Callable[..., Path]) -> None:
    folder = make_hf_folder("llama")

    assert read_model(folder, device="cuda")[1] == open_checkpoint(folder, quantization="nf4").nbytes
    # int8 with a float32 scale a row: one byte a weight and 4 a row, against Q8_0's 34 bytes for 32 weights.
    matrices = open_checkpoint(folder, quantization="int8").matrices.items()
    layers = [matrix.shape for name, matrix in matrices if name.startswith("blk.")]
    q8_0 = sum(rows * cols * 34 // 32 for rows, cols in layers)
    int8 = sum(rows * cols + rows * 4 for rows, cols in layers)
    on_cpu = read_model(folder, quantization="int8")[1]
    assert read_model(folder, device="cuda", quantization="int8")[1] == on_cpu - q8_0 + int8


def test_a_truncated_file_is_refused(make_hf_folder: Callable[..., Path], make_gguf: Callable[..., Path]) -> None:
    path = make_gguf(make_hf_folder("llama"))
    cut = path.with_name("cut.gguf")
    cut.write_bytes(path.read_bytes()[:-5000])

    with pytest.raises(ModelFileError, match=r"cut\.gguf"):
        read_model(cut)


@pytest.mark.model
@pytest.mark.parametrize("context", [300, 2000])
def test_the_prediction_is_what_torch_allocates(small_model: Path, context: int) -> None:
    """Each part, against tensors that were really there; in all, the error is well below 5 %."""
    spec, weights = read_model(small_model)
    predicted = plan_memory(spec, weights, context)[0]

    measured = measure_memory(small_model, context)

    assert (predicted.weights, predicted.kv) == (measured.weights, measured.kv)
    assert predicted.total == pytest.approx(measured.total, rel=0.02)


@pytest.mark.parametrize(
    ("available", "tokens"),
    [(2**40, 8192), (2**30, 6528), (0, 32), (-5, 32)],
)
def test_an_automatic_kv_budget_is_the_whole_context_or_four_fifths_of_what_is_left(
    available: int, tokens: int
) -> None:
    """Llama 3 8B takes 128 KiB a token; (2^30 - 2^20) * 0.8 bytes hold 204 whole pages of 32 tokens."""
    budget = automatic_kv_bytes(LLAMA_8B, 8192, available, page_size=32, workspace=2**20)
    assert budget == tokens * 2**17
