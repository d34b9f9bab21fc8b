"""Whether the engine can run a model, told from its header before anything is registered."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path


def check_model(path: Path, *, name: str | None = None) -> None:
    """Read a model's header: architecture, tensor shapes, formats and tokenizer. No weights are read.

    `name` stands for the path in errors, where the file has a temporary name.

    Raises:
        ModelFileError, UnsupportedModelError: one sentence naming the file and the tensor or key.
    """
    from octavo.engine.tokenizer import Tokenizer, TokenizerData

    with _named(path, name):
        if path.is_dir():
            _check_folder(path)
            data = TokenizerData.from_folder(path)
        else:
            data = TokenizerData.from_gguf(_check_gguf(path))
        Tokenizer(data)


def check_config(folder: Path, *, name: str) -> None:
    """Check a model folder's config.json, as soon as that file is there; errors as `check_model`."""
    from octavo.engine.errors import ModelFileError
    from octavo.engine.model.spec import ModelSpec

    with _named(folder, name):
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except ValueError:
            config = None
        if not isinstance(config, dict):
            raise ModelFileError(f"{folder}/config.json is not a JSON object")
        ModelSpec.from_hf_config(config, folder)


@contextlib.contextmanager
def _named(path: Path, name: str | None) -> Iterator[None]:
    """Let errors speak of `name` instead of `path`."""
    from octavo.engine.errors import EngineError

    try:
        yield
    except EngineError as error:
        text = str(error) if name is None else str(error).replace(str(path), name)
        raise type(error)(text) from None


def _check_folder(path: Path) -> None:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.layout import check_tensors, hf_name
    from octavo.engine.weights.safetensors import SafetensorsFolder

    folder = SafetensorsFolder(path)
    spec = ModelSpec.from_hf_config(folder.config, path)
    check_tensors(path, spec, folder.shapes, hf_name)


def _check_gguf(path: Path) -> dict[str, object]:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.gguf import GGUFFile
    from octavo.engine.weights.layout import check_tensors

    file = GGUFFile(path)
    spec = ModelSpec.from_gguf(file.metadata, file.tensors, path=path)
    check_tensors(path, spec, {tensor: info.shape for tensor, info in file.tensors.items()})
    return file.metadata
