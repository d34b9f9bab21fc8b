"""Hugging Face folders: shards, and what is said when a folder is not whole or not supported."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.engine.weights.safetensors import SafetensorsFolder

Factory = Callable[..., Path]
INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(make_hf_folder: Factory, tmp_path: Path) -> Path:
    return shutil.copytree(make_hf_folder("llama", max_shard_size="80KB"), tmp_path / "sharded")


@pytest.fixture
def single(make_hf_folder: Factory, tmp_path: Path) -> Path:
    return shutil.copytree(make_hf_folder("llama"), tmp_path / "single")


def change_json(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refused(folder: Path, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence) as caught:
        open_checkpoint(folder)
    assert str(folder) in str(caught.value)


def test_shards_hold_the_same_model_as_one_file(sharded: Path, single: Path) -> None:
    assert len(list(sharded.glob("*.safetensors"))) > 1
    whole, parts = SafetensorsFolder(single), SafetensorsFolder(sharded)
    assert whole.shapes == parts.shapes
    assert all(torch.equal(whole.tensor(name), parts.tensor(name)) for name in whole.shapes)
    assert open_checkpoint(sharded, quantization="none").fingerprint()


def test_a_missing_shard_is_named(sharded: Path) -> None:
    shard = sorted(sharded.glob("*.safetensors"))[1]
    shard.unlink()
    refused(sharded, ModelFileError, f"{shard.name} is missing")


def test_a_tensor_that_only_the_index_knows_is_named(sharded: Path) -> None:
    weight_map = json.loads((sharded / INDEX).read_text())["weight_map"]
    change_json(sharded / INDEX, weight_map=weight_map | {"extra.weight": next(iter(weight_map.values()))})
    refused(sharded, ModelFileError, "the tensor extra.weight is missing, though the index lists it")


@pytest.mark.parametrize("file", ["../outside.safetensors", "/etc/passwd", 7])
def test_an_index_names_files_of_its_folder_only(sharded: Path, file: object) -> None:
    change_json(sharded / INDEX, weight_map={"model.norm.weight": file})
    refused(sharded, ModelFileError, "which is not a file of the folder")


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_file_is_named(single: Path, keep: int) -> None:
    file = single / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    refused(single, ModelFileError, r"model\.safetensors is truncated or damaged")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"config\.json is missing"),
        ("{", r"config\.json is not valid JSON"),
        ("[]", "not hold a JSON object"),
    ],
)
def test_a_bad_config_is_named(single: Path, content: str | None, sentence: str) -> None:
    (single / "config.json").unlink()
    if content is not None:
        (single / "config.json").write_text(content)
    refused(single, ModelFileError, sentence)


def test_tensors_are_named_as_the_file_names_them(single: Path) -> None:
    tensors = load_file(single / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, single / "model.safetensors")
    refused(single, ModelFileError, r"the tensor model\.layers\.1\.mlp\.up_proj\.weight is missing")


def test_integer_weights_are_refused_by_type(single: Path) -> None:
    tensors = load_file(single / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(64, dtype=torch.int8)
    save_file(tensors, single / "model.safetensors")
    refused(single, UnsupportedModelError, r"model\.norm\.weight has the type I8, which is not supported")


def test_old_rotary_tables_and_an_unused_head_are_ignored(make_hf_folder: Factory, tmp_path: Path) -> None:
    folder = shutil.copytree(make_hf_folder("llama", tie_word_embeddings=True), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    tensors["lm_head.weight"] = torch.zeros(320, 64)
    save_file(tensors, folder / "model.safetensors")
    assert "output.weight" not in open_checkpoint(folder).matrices


def test_pickled_weights_are_refused(single: Path) -> None:
    (single / "model.safetensors").rename(single / "pytorch_model.bin")
    refused(single, UnsupportedModelError, "pickled PyTorch files")


def test_a_folder_without_weights_is_refused(single: Path) -> None:
    (single / "model.safetensors").unlink()
    refused(single, ModelFileError, "has no model weights")
