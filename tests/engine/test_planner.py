from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.engine import measure
from octavo.engine.config import STREAM_PAGES, EngineConfig, KvCodec
from octavo.engine.errors import EngineError, ModelFileError
from octavo.engine.kernels.dispatch import load_kernels
from octavo.engine.kv.pools import DevicePool
from octavo.engine.kv.sizes import num_rows
from octavo.engine.measure import measure_memory
from octavo.engine.planner import (
    CODEC_NAMES,
    PlainSizes,
    kv_bytes,
    page_layout,
    plan_memory,
    smallest_pool_bytes,
    tail_bytes,
    write_buffer_bytes,
)
from octavo.engine.weight_sizes import read_config, read_model
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.engine.workspace import RunSizes, workspace_bytes

LLAMA_8B = PlainSizes(
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=14_336,
    vocab_size=128_256,
)


def test_the_published_size_of_llama_3_8b_kv() -> None:
    """128 KiB a token in 16 bits, so 1 GiB at 8,192 tokens."""
    assert plan_memory(LLAMA_8B, 0, 8192)[0].kv == 2**30


@pytest.mark.parametrize(("codec", "bits"), [("k8v8", 16), ("k8v4", 12), ("k4v4", 8)])
def test_a_codec_takes_its_bits_and_at_most_half_a_byte_more_for_each_k_and_v(codec: str, bits: int) -> None:
    plan = {plan.codec: plan for plan in plan_memory(LLAMA_8B, 5_000_000_000, 8192)}[codec]
    pairs = 32 * 8 * 8192 * 128
    assert pairs * bits / 8 < plan.kv <= pairs * (bits / 8 + 0.5)


@given(st.integers(0, 100_000), st.sampled_from([8, 32, 256]), st.sampled_from(CODEC_NAMES))
def test_kv_is_in_whole_pages(context: int, page_size: int, codec: str) -> None:
    page = kv_bytes(LLAMA_8B, page_size, codec, page_size)
    total = kv_bytes(LLAMA_8B, context, codec, page_size)
    assert page == 32 * page_layout(LLAMA_8B, codec, page_size).slot_bytes
    assert total % page == 0
    assert total - page < page * context / page_size <= total


@pytest.mark.parametrize("has_lower_tier", [False, True])
@pytest.mark.parametrize("codec", [*CODEC_NAMES, "f32"])
def test_a_pool_is_as_large_as_planned(codec: str, has_lower_tier: bool) -> None:
    """Three pages, 16 unfinished ones, and slots to stream through, of an odd shape: 3 KV heads of 40."""
    sizes, run = PlainSizes(5, 360, 9, 3, 40, 500, 100), RunSizes(page_size=16)
    layout = page_layout(sizes, codec, 16)
    dtype = torch.float32 if codec == "f32" else torch.bfloat16
    pool = DevicePool(layout, 5, 3 * 5, STREAM_PAGES if has_lower_tier else 0, 16, dtype, "cpu")

    planned = kv_bytes(sizes, 3 * 16, codec, 16) + tail_bytes(sizes, codec, run, has_lower_tier=has_lower_tier)

    assert planned == pool.nbytes
    assert smallest_pool_bytes(sizes, codec, run) == tail_bytes(sizes, codec, run) + 5 * layout.slot_bytes


@pytest.mark.parametrize(("page_size", "prefill_chunk"), [(32, 512), (16, 128)])
def test_the_write_buffer_is_as_large_as_planned(page_size: int, prefill_chunk: int) -> None:
    config = EngineConfig(page_size=page_size, prefill_chunk=prefill_chunk)
    page = kv_bytes(LLAMA_8B, page_size, "bf16", page_size)
    run = RunSizes(page_size=page_size, prefill_chunk=prefill_chunk)
    assert write_buffer_bytes(LLAMA_8B, "bf16", run) == num_rows(config, page, writes=True) * page


def test_planner_and_engine_run_as_many_sequences() -> None:
    assert RunSizes().max_sequences == EngineConfig().max_sequences


@given(st.integers(1, 50_000), st.integers(1, 50_000), st.booleans())
def test_more_context_never_needs_less(first: int, second: int, on_cuda: bool) -> None:
    low, high = sorted((first, second))
    run = RunSizes(on_cuda=on_cuda)
    assert workspace_bytes(LLAMA_8B, low, "bf16", run) <= workspace_bytes(LLAMA_8B, high, "bf16", run)


def test_only_tables_grow_with_a_long_context() -> None:
    """128 values of 4 bytes for each further position; for each page 34 numbers of 16 sequences."""
    more = 65_536 * 128 * 4 + 16 * (65_536 // 32) * 34 * 4
    assert workspace_bytes(LLAMA_8B, 131_072) - workspace_bytes(LLAMA_8B, 65_536) == more


def test_a_total_is_the_sum_of_its_parts() -> None:
    for plan in plan_memory(LLAMA_8B, 5_000_000_000, 1000, hot=320):
        assert plan.weights == 5_000_000_000
        assert plan.total == plan.weights + plan.kv + plan.tails + plan.workspace
        assert (plan.kv, plan.host) == (kv_bytes(LLAMA_8B, 320, plan.codec), kv_bytes(LLAMA_8B, 1000, plan.codec))


def test_without_a_rest_there_is_nothing_below_the_device() -> None:
    every, most = plan_memory(LLAMA_8B, 0, 1000), plan_memory(LLAMA_8B, 0, 1000, hot=2000)
    assert every == most
    assert {plan.host for plan in every} == {0}


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


@pytest.mark.parametrize("quantization", ["auto", "int8", "int4", "nf4"])
def test_a_config_alone_is_planned_as_its_folder(make_hf_folder: Callable[..., Path], quantization: str) -> None:
    folder = make_hf_folder("qwen3", dtype=torch.bfloat16)
    by_folder = read_model(folder, quantization=quantization)  # type: ignore[arg-type]
    assert read_config(folder / "config.json", quantization=quantization) == by_folder  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "reason"), [("{", "cannot be read"), ("[]", "holds no table"), ("{}", "config")])
def test_a_config_that_is_none_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineError, match=reason):
        read_config(tmp_path / "config.json")


@pytest.mark.model
@pytest.mark.parametrize(
    ("context", "hot", "codec"), [(300, None, "bf16"), (2000, None, "k8v4"), (2000, 320, "bf16"), (2500, 0, "k4v4")]
)
def test_the_prediction_is_what_torch_allocates(
    small_model: Path, context: int, hot: int | None, codec: KvCodec
) -> None:
    """Each part, against tensors that were really there."""
    spec, weights = read_model(small_model)
    (predicted,) = plan_memory(spec, weights, context, hot=hot, codecs=[codec])

    measured = measure_memory(small_model, context, hot=hot, codec=codec)

    for part in ("weights", "kv", "tails", "host"):
        assert getattr(predicted, part) == getattr(measured, part)
    assert predicted.workspace == pytest.approx(measured.workspace, rel=0.1)
    assert predicted.total == pytest.approx(measured.total, rel=0.02)


@pytest.mark.model
@pytest.mark.parametrize(("context", "codec"), [(64, "bf16"), (600, "k8v4")])
def test_without_native_kernels_more_is_planned_than_is_taken(
    small_model: Path, monkeypatch: pytest.MonkeyPatch, context: int, codec: KvCodec
) -> None:
    """Torch decodes whole groups of pages to float32, most of all when many sequences decode at once."""
    monkeypatch.setattr(measure, "load_kernels", lambda device: load_kernels(device, "torch"))
    spec, _ = read_model(small_model)
    run = RunSizes(prefill_chunk=64, is_native=False)

    measured = measure_memory(small_model, context, codec=codec, prefill_chunk=64)

    assert measured.workspace < workspace_bytes(spec, context, codec, run)
