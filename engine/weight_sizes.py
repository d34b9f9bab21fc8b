"""What a model is and how many bytes its weights will take, before any of them is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.engine.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.checkpoint import Quantization

_FLOAT32 = 4
_BFLOAT16 = 2


def read_model(path: Path, *, device: str = "cpu", quantization: Quantization = "auto") -> tuple[ModelSpec, int]:
    """A model's spec, and the bytes its weights will take in memory, from headers alone.

    Raises ModelFileError or UnsupportedModelError, as `open_checkpoint` does.
    """
    return _read_folder(path, device, quantization) if path.is_dir() else _read_gguf(path)


def read_config(path: Path, *, device: str = "cpu", quantization: Quantization = "auto") -> tuple[ModelSpec, int]:
    """As `read_model`, from a config.json whose weights are not here; unquantized weights count as 16 bits.

    Raises ModelFileError or UnsupportedModelError.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read as a config.json: {error}.") from error
    if not isinstance(config, dict):
        raise ModelFileError(f"{path} is not a config.json: it holds no table.")
    return plan_config(config, path.parent, device=device, quantization=quantization)


def plan_config(
    config: Mapping[str, Any], path: Path, *, device: str = "cpu", quantization: Quantization = "auto"
) -> tuple[ModelSpec, int]:
    """`read_config` of what stands in the file; `path` names the model. Raises as `ModelSpec.from_hf_config`."""
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.layout import expected_tensors

    spec = ModelSpec.from_hf_config(config, path)
    total = 0
    for name, shape in expected_tensors(spec):
        if len(shape) == 1:
            total += shape[0] * _FLOAT32
        elif quantization == "none":
            total += shape[0] * shape[1] * _BFLOAT16
        else:
            total += _quantized_bytes(name, shape[0], shape[1], device, quantization)
    return spec, total


def _read_gguf(path: Path) -> tuple[ModelSpec, int]:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.gguf import GGUFFile
    from octavo.engine.weights.layout import check_tensors, expected_tensors

    file = GGUFFile(path)
    spec = ModelSpec.from_gguf(file.metadata, file.tensors, path=path)
    check_tensors(path, spec, {name: info.shape for name, info in file.tensors.items()})
    return spec, sum(
        file.tensors[name].nbytes if len(shape) > 1 else shape[0] * _FLOAT32 for name, shape in expected_tensors(spec)
    )


def _read_folder(path: Path, device: str, quantization: Quantization) -> tuple[ModelSpec, int]:
    from octavo.engine.weights.layout import check_tensors, expected_tensors, hf_name
    from octavo.engine.weights.safetensors import SafetensorsFolder

    folder = SafetensorsFolder(path)
    spec, total = plan_config(folder.config, path, device=device, quantization=quantization)
    check_tensors(path, spec, folder.shapes, hf_name)
    if quantization == "none":
        matrices = (name for name, shape in expected_tensors(spec) if len(shape) > 1)
        vectors = sum(shape[0] * _FLOAT32 for _, shape in expected_tensors(spec) if len(shape) == 1)
        total = vectors + sum(folder.tensor(hf_name(name)).nbytes for name in matrices)
    return spec, total


def _quantized_bytes(name: str, rows: int, cols: int, device: str, quantization: Quantization) -> int:
    """What `quantize_matrix` makes of a matrix."""
    from octavo.engine.weights.formats import Format
    from octavo.engine.weights.quantize import VOCABULARY

    on_cpu = not device.startswith("cuda")
    scheme = ("int8" if on_cpu else "nf4") if quantization == "auto" else quantization
    if name not in VOCABULARY and scheme == "nf4":
        return _nf4_bytes(rows * cols)
    if name not in VOCABULARY and scheme == "int8" and not on_cpu:
        return rows * cols + rows * _FLOAT32
    if cols % Format.Q8_0.block_size:
        return rows * cols * _BFLOAT16
    target = Format.Q4_1 if scheme == "int4" and name not in VOCABULARY else Format.Q8_0
    return rows * target.row_bytes(cols)


def _nf4_bytes(weights: int) -> int:
    """bitsandbytes' NF4: 64 weights share a scale of 8 bits, 256 scales one of 32; two tables, an offset."""
    blocks = math.ceil(weights / 64)
    return math.ceil(weights / 2) + blocks + _FLOAT32 * (math.ceil(blocks / 256) + 16 + 256 + 1)


def weights_by_format(path: Path) -> list[tuple[str, int, int]]:
    """Format, number of weights and bytes, the most bytes first, as they lie in a GGUF file or a safetensors folder.

    Scales count to the format that has them. Raises ModelFileError.
    """
    totals: dict[str, tuple[int, int]] = {}
    for name, count, nbytes in _folder_tensors(path) if path.is_dir() else _gguf_tensors(path):
        known = totals.get(name, (0, 0))
        totals[name] = known[0] + count, known[1] + nbytes
    return sorted(((name, count, size) for name, (count, size) in totals.items()), key=lambda item: -item[2])


def _gguf_tensors(path: Path) -> list[tuple[str, int, int]]:
    from octavo.engine.weights.gguf import GGUFFile

    return [(info.format.name, math.prod(info.shape), info.nbytes) for info in GGUFFile(path).tensors.values()]


def _folder_tensors(path: Path) -> list[tuple[str, int, int]]:
    from octavo.engine.weights.safetensors import SafetensorsFolder

    folder = SafetensorsFolder(path)
    found = []
    for name, shape in folder.shapes.items():
        tensor = folder.tensor(name)
        found.append((str(tensor.dtype).removeprefix("torch.").upper(), math.prod(shape), tensor.nbytes))
    return found
