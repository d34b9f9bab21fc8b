"""Quantization on load: the blocks of the gguf package, a tensor at a time."""

import weakref
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch
from safetensors.torch import load_file

from octavo.engine.weights import quantize
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.engine.weights.layout import hf_name
from octavo.engine.weights.quantize import quantize_matrix
from octavo.engine.weights.safetensors import SafetensorsFolder

Factory = Callable[..., Path]
CPU = torch.device("cpu")


@pytest.mark.parametrize(("scheme", "kind"), [("int8", "Q8_0"), ("int4", "Q4_1"), ("auto", "Q8_0")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_folder_becomes_blocks(
    make_hf_folder: Factory, monkeypatch: pytest.MonkeyPatch, scheme: str, kind: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(quantize, "_CHUNK_WEIGHTS", 1000)
    folder = make_hf_folder("qwen2", dtype=dtype)
    checkpoint = open_checkpoint(folder, quantization=scheme)  # type: ignore[arg-type]
    saved = load_file(folder / "model.safetensors")
    for name, matrix in checkpoint.matrices.items():
        expected = "Q8_0" if name in ("token_embd.weight", "output.weight") else kind
        qtype = gguf.GGMLQuantizationType[expected]
        packed = gguf.quants.quantize(saved[hf_name(name)].float().numpy(), qtype)
        assert matrix.format_name == expected, name
        assert torch.equal(matrix.data, torch.from_numpy(packed)), name  # type: ignore[attr-defined]
    for name, vector in checkpoint.vectors.items():
        assert torch.equal(vector, saved[hf_name(name)].float()), name


@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "F32"), (torch.bfloat16, "BF16"), (torch.float16, "F16")])
def test_none_keeps_what_is_stored(make_hf_folder: Factory, dtype: torch.dtype, name: str) -> None:
    folder = make_hf_folder("qwen3", dtype=dtype)
    checkpoint = open_checkpoint(folder, quantization="none")
    saved = load_file(folder / "model.safetensors")
    assert {matrix.format_name for matrix in checkpoint.matrices.values()} == {name}
    for tensor, matrix in checkpoint.matrices.items():
        assert torch.equal(matrix.dequantize(dtype), saved[hf_name(tensor)])


def test_columns_that_make_no_blocks_stay_in_bfloat16() -> None:
    weight = torch.randn(8, 48, generator=torch.Generator().manual_seed(0))
    for scheme in ("int8", "int4"):
        matrix = quantize_matrix("blk.0.attn_q.weight", weight, scheme, CPU)  # type: ignore[arg-type]
        assert matrix.format_name == "BF16"
        assert torch.equal(matrix.dequantize(torch.bfloat16), weight.to(torch.bfloat16))


def test_no_more_than_one_tensor_is_held_in_full(make_hf_folder: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0
    read = SafetensorsFolder.tensor

    def counted(folder: SafetensorsFolder, name: str) -> torch.Tensor:
        nonlocal most
        tensor = read(folder, name)
        alive.append(weakref.ref(tensor))
        most = max(most, sum(ref() is not None for ref in alive))
        return tensor

    monkeypatch.setattr(SafetensorsFolder, "tensor", counted)
    folder = make_hf_folder("llama", num_hidden_layers=4)
    checkpoint = open_checkpoint(folder, quantization="int4")
    assert len(alive) == len(checkpoint.matrices) + len(checkpoint.vectors)
    # The loop's variable still names the tensor before while the next is fetched.
    assert most <= 2
