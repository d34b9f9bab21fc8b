"""Opening models: both containers give the same weights in one row order, and name what is wrong."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.weights.checkpoint import Checkpoint, open_checkpoint
from octavo.engine.weights.layout import hf_name

Factory = Callable[..., Path]


def dense(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    matrices = {name: matrix.dequantize(torch.float32) for name, matrix in checkpoint.matrices.items()}
    return matrices | checkpoint.vectors


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("llama", {}),
        ("llama", {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 144}),
        ("mistral", {"head_dim": 32}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    ],
)
def test_a_gguf_file_and_its_folder_hold_the_same_model(
    make_hf_folder: Factory, make_gguf: Factory, family: str, config: dict[str, int]
) -> None:
    folder = make_hf_folder(family, **config)
    from_file = open_checkpoint(make_gguf(folder, "F32"))
    from_folder = open_checkpoint(folder, quantization="none")
    saved = load_file(folder / "model.safetensors")
    tensors = dense(from_file)
    assert tensors.keys() == dense(from_folder).keys()
    assert {hf_name(name) for name in tensors} == saved.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, saved[hf_name(name)]), name
        assert torch.equal(tensor, dense(from_folder)[name]), name
    for field in (
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "vocab_size",
        "qkv_bias",
        "qk_norm",
        "tied_embeddings",
    ):
        assert getattr(from_file.spec, field) == getattr(from_folder.spec, field), field
    assert from_file.nbytes == sum(tensor.nbytes for tensor in tensors.values())


def test_llama_biases_take_the_same_row_order(make_hf_folder: Factory, make_gguf: Factory) -> None:
    folder = make_hf_folder("llama", attention_bias=True)

    def drop_output_bias(tensors: dict[str, np.ndarray]) -> None:
        for name in [name for name in tensors if name.endswith("attn_output.bias")]:
            del tensors[name]

    checkpoint = open_checkpoint(make_gguf(folder, "F32", edit=drop_output_bias))
    saved = load_file(folder / "model.safetensors")
    assert checkpoint.spec.qkv_bias
    for part in "qkv":
        name = f"blk.1.attn_{part}.bias"
        assert torch.equal(checkpoint.vectors[name], saved[hf_name(name)])


def test_quantized_rows_are_reordered_without_loss(make_hf_folder: Factory, make_gguf: Factory) -> None:
    folder = make_hf_folder("llama", hidden_size=256, intermediate_size=256)
    kinds = {"default": "Q4_1", "blk.0.attn_q.weight": "Q6_K", "blk.1.attn_k.weight": "Q5_0"}
    path = make_gguf(folder, kinds)
    checkpoint = open_checkpoint(path)
    for tensor in gguf.GGUFReader(path).tensors:
        matrix = checkpoint.matrices.get(tensor.name)
        if matrix is None:
            continue
        values = gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type)
        if "attn_q" in tensor.name or "attn_k" in tensor.name:
            heads = 4 if "attn_q" in tensor.name else 2
            order = np.arange(values.shape[0]).reshape(heads, 32, 2).swapaxes(1, 2).ravel()
            values = values[order]
        assert matrix.format_name == tensor.tensor_type.name
        assert torch.equal(matrix.dequantize(torch.float32), torch.from_numpy(values)), tensor.name


def test_a_gguf_file_is_used_in_place(make_hf_folder: Factory, make_gguf: Factory) -> None:
    checkpoint = open_checkpoint(make_gguf(make_hf_folder("qwen2"), "Q8_0"))
    storages = {matrix.data.untyped_storage().data_ptr() for matrix in checkpoint.matrices.values()}  # type: ignore[attr-defined]
    assert len(storages) == 1, "every matrix is a view of the one memory map"


def test_rope_factors_of_llama3_files_reach_the_spec(make_hf_folder: Factory, make_gguf: Factory) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    rope = open_checkpoint(make_gguf(make_hf_folder("llama", rope_scaling=scaling))).spec.rope
    assert rope.scaling == "factors"
    assert len(rope.freq_factors) == 8
    assert rope.freq_factors[0] == pytest.approx(1.0)
    assert rope.freq_factors[-1] == pytest.approx(8.0, rel=1e-6)


def test_the_fingerprint_covers_every_byte_and_the_quantization(make_hf_folder: Factory, make_gguf: Factory) -> None:
    folder = make_hf_folder("llama")
    path = make_gguf(folder)
    assert open_checkpoint(path).fingerprint() == hashlib.sha256(path.read_bytes()).hexdigest()
    prints = {open_checkpoint(folder, quantization=kind).fingerprint() for kind in ("none", "int8", "int4")}
    assert len(prints) == 3
    assert open_checkpoint(folder).fingerprint() in prints, "int8 is the default on a CPU"
    changed = shutil.copytree(folder, path.parent / "changed")
    weights = bytearray((changed / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (changed / "model.safetensors").write_bytes(weights)
    assert open_checkpoint(changed).fingerprint() not in prints


def test_opening_does_not_import_transformers_or_bitsandbytes(make_hf_folder: Factory) -> None:
    code = (
        "import sys, pathlib; from octavo.engine.weights.checkpoint import open_checkpoint;"
        "open_checkpoint(pathlib.Path(sys.argv[1]));"
        "print([name for name in ('transformers', 'bitsandbytes') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(make_hf_folder("llama"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_gguf_file_is_not_quantized_again(make_hf_folder: Factory, make_gguf: Factory) -> None:
    path = make_gguf(make_hf_folder("llama"))
    with pytest.raises(UnsupportedModelError, match="is a GGUF file, quantized already: int4 is only for"):
        open_checkpoint(path, quantization="int4")


def test_a_safetensors_file_points_to_its_folder(make_hf_folder: Factory) -> None:
    folder = make_hf_folder("llama")
    with pytest.raises(ModelFileError, match="give the folder"):
        open_checkpoint(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("edit", "error", "sentence"),
    [
        (
            lambda t: t.pop("blk.1.ffn_up.weight"),
            ModelFileError,
            r"the tensor blk\.1\.ffn_up\.weight is missing",
        ),
        (
            lambda t: t.update({"blk.0.attn_v.weight": np.zeros((64, 64), np.float32)}),
            ModelFileError,
            r"blk\.0\.attn_v\.weight has shape \(64, 64\), where \(32, 64\) is expected",
        ),
        (
            lambda t: t.update({"output_norm.weight": np.zeros((1, 64), np.float32)}),
            ModelFileError,
            r"output_norm\.weight has shape \(1, 64\), where \(64,\) is expected",
        ),
        (
            lambda t: t.update({"token_embd.weight": np.zeros((300, 64), np.float32)}),
            ModelFileError,
            r"token_embd\.weight has shape \(300, 64\), where \(320, 64\) is expected",
        ),
        (
            lambda t: t.update({"blk.0.attn_output.bias": np.zeros(64, np.float32)}),
            UnsupportedModelError,
            r"the tensor blk\.0\.attn_output\.bias is not part of a llama model",
        ),
        (
            lambda t: t.update({"rope_freqs.weight": np.ones(5, np.float32)}),
            ModelFileError,
            r"rope_freqs\.weight must hold 8 positive numbers",
        ),
    ],
    ids=["missing", "shape", "rank", "vocabulary", "unused", "rope"],
)
def test_tensors_that_do_not_fit_are_named(
    make_hf_folder: Factory,
    make_gguf: Factory,
    edit: Callable[[dict[str, np.ndarray]], object],
    error: type[Exception],
    sentence: str,
) -> None:
    path = make_gguf(make_hf_folder("llama"), "F32", edit=edit)
    with pytest.raises(error, match=sentence) as caught:
        open_checkpoint(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "error", "sentence"),
    [
        (
            {"general.architecture": "gemma3"},
            UnsupportedModelError,
            "gemma3 is not supported; supported are llama, qwen2",
        ),
        ({"llama.expert_count": 8}, UnsupportedModelError, "mixture of experts"),
        (
            {"llama.rope.scaling.type": "longrope"},
            UnsupportedModelError,
            "the RoPE scaling longrope is not supported",
        ),
        ({"llama.rope.dimension_count": 8}, UnsupportedModelError, r"rope\.dimension_count is 8; only 16"),
        ({"llama.block_count": "two"}, ModelFileError, r"llama\.block_count is 'two', not a whole number"),
        (
            {"llama.block_count": 4_000_000_000},
            ModelFileError,
            r"the tensor blk\.2\.attn_norm\.weight is missing",
        ),
        ({"llama.attention.head_count_kv": 3}, ModelFileError, "4 heads cannot share 3 KV heads"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, ModelFileError, "not a positive number"),
    ],
)
def test_metadata_that_does_not_fit_is_named(
    make_hf_folder: Factory,
    make_gguf: Factory,
    metadata: dict[str, object],
    error: type[Exception],
    sentence: str,
) -> None:
    path = make_gguf(make_hf_folder("llama"), metadata=metadata)
    with pytest.raises(error, match=sentence) as caught:
        open_checkpoint(path)
    assert str(path) in str(caught.value)


def test_a_qwen2_file_without_its_biases_is_not_taken_for_one_that_has_none(
    make_hf_folder: Factory, make_gguf: Factory
) -> None:
    def drop_biases(tensors: dict[str, np.ndarray]) -> None:
        for name in [name for name in tensors if name.endswith(".bias")]:
            del tensors[name]

    path = make_gguf(make_hf_folder("qwen2"), edit=drop_biases)
    with pytest.raises(ModelFileError, match=r"the tensor blk\.0\.attn_q\.bias is missing"):
        open_checkpoint(path)


def test_a_config_that_disagrees_with_the_weights_is_named(make_hf_folder: Factory, tmp_path: Path) -> None:
    folder = shutil.copytree(make_hf_folder("llama"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 128}))
    sentence = r"model\.layers\.0\.mlp\.gate_proj\.weight has shape \(96, 64\), where \(128, 64\) is expected"
    with pytest.raises(ModelFileError, match=sentence):
        open_checkpoint(folder)


@pytest.mark.model
def test_the_small_model_opens_as_the_gguf_package_reads_it(small_model: Path) -> None:
    checkpoint = open_checkpoint(small_model)
    reader = gguf.GGUFReader(small_model)
    assert len(checkpoint.matrices) + len(checkpoint.vectors) == len(reader.tensors)
    for tensor in reader.tensors[:40]:
        if tensor.name in checkpoint.matrices and ".attn_q" not in tensor.name and ".attn_k" not in tensor.name:
            expected = gguf.quants.dequantize(np.array(tensor.data[:64]), tensor.tensor_type)
            found = checkpoint.matrices[tensor.name].dequantize(torch.float32, slice(0, 64))
            assert torch.equal(found, torch.from_numpy(expected)), tensor.name
