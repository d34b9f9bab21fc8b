"""Reads a Hugging Face folder: config.json beside model.safetensors, or beside an index of shards."""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from octavo.engine.errors import ModelFileError, UnsupportedModelError

CONFIG = "config.json"
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_DTYPES = ("F32", "F16", "BF16")


class SafetensorsFolder:
    """An open folder. config: config.json. shapes: tensor name -> shape, over all shards.

    Raises ModelFileError (missing or truncated file, a shard without its tensors) or
    UnsupportedModelError (weights that are not safetensors, or not 16- or 32-bit floats).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = _read_json(path / CONFIG)
        self._shards: dict[str, Any] = {}
        for file in weight_files(path):
            shard = _open_shard(file)
            self._shards.update(dict.fromkeys(shard.keys(), shard))
        self._check_index()
        self.shapes = {name: self._shape(name) for name in self._shards}

    def tensor(self, name: str) -> Tensor:
        """The tensor, backed by the memory-mapped file."""
        tensor: Tensor = self._shards[name].get_tensor(name)
        return tensor

    def _shape(self, name: str) -> tuple[int, ...]:
        entry = self._shards[name].get_slice(name)
        if entry.get_dtype() not in _DTYPES:
            raise UnsupportedModelError(
                f"{self.path}: the tensor {name} has the type {entry.get_dtype()}, which is not supported; "
                f"supported are {', '.join(_DTYPES)}"
            )
        return tuple(entry.get_shape())

    def _check_index(self) -> None:
        if (self.path / _SINGLE).is_file():
            return
        for name, file in _weight_map(self.path).items():
            if name not in self._shards:
                raise ModelFileError(f"{self.path / file}: the tensor {name} is missing, though the index lists it")


def weight_files(path: Path) -> list[Path]:
    """The folder's weight files, sorted by name; raises as SafetensorsFolder does if there are none."""
    if (path / _SINGLE).is_file():
        return [path / _SINGLE]
    if (path / _INDEX).is_file():
        return sorted({path / file for file in _weight_map(path).values()})
    if any(path.glob("*.bin")) or any(path.glob("*.pt")) or any(path.glob("*.pth")):
        raise UnsupportedModelError(
            f"{path} holds its weights as pickled PyTorch files, which can run code when they are read: "
            "use a safetensors or a GGUF version of the model"
        )
    raise ModelFileError(f"{path} has no model weights: neither {_SINGLE} nor {_INDEX} is there")


def _weight_map(path: Path) -> dict[str, str]:
    index = _read_json(path / _INDEX)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(f"{path / _INDEX} has no weight_map")
    for file in weight_map.values():
        if not isinstance(file, str) or Path(file).name != file:
            raise ModelFileError(f"{path / _INDEX} names {str(file)!r}, which is not a file of the folder")
    return weight_map


def _open_shard(file: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(file, framework="pt")
    except FileNotFoundError:
        raise ModelFileError(f"{file} is missing: fetch the model again") from None
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{file} is truncated or damaged, fetch it again ({error})") from error


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"{file} is missing") from None
    except OSError as error:
        raise ModelFileError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelFileError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{file} does not hold a JSON object")
    return value
