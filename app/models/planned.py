"""What a plan needs to know of a model: its sizes and its weights, whether its file is here or not."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.errors import ModelNotFoundError
from octavo.app.models.resolve import resolve_model

if TYPE_CHECKING:
    from octavo.app.models.catalogue import CatalogueEntry
    from octavo.app.settings import Settings
    from octavo.engine.weights.checkpoint import Quantization
    from octavo.engine.workspace import ModelSizes
    from octavo.storage.paths import Paths


@dataclass(frozen=True)
class PlannedModel:
    """A model to plan for, trained on `context` tokens. `path` is None where its file is not here."""

    name: str
    sizes: ModelSizes
    weight_bytes: int
    context: int
    path: Path | None


def planned_model(settings: Settings, paths: Paths, device: str) -> PlannedModel:
    """The model the settings name: as its headers say, or as the catalogue says where it is not here yet.

    Raises ModelNotFoundError, ModelFileError or UnsupportedModelError.
    """
    from octavo.engine.weight_sizes import read_model

    model = resolve_model(None, settings, paths)
    if model.present:
        spec, weight_bytes = read_model(model.path, device=device, quantization=settings.quantization)
        return PlannedModel(model.name, spec, weight_bytes, spec.context_length, model.path)
    if model.entry is None:
        raise ModelNotFoundError(f"{model.name} was at {model.path}, and there is nothing there now.")
    return _from_catalogue(model.name, model.entry)


def planned_shape(shape: str, device: str, quantization: Quantization) -> PlannedModel:
    """A model known by its shape alone: a published one's name, or a config.json or the folder it lies in.

    Raises ModelNotFoundError, ModelFileError or UnsupportedModelError.
    """
    from octavo.engine.weight_sizes import plan_config, read_config

    known = load_shapes()
    if shape.casefold() in known:
        name = shape.casefold()
        spec, weight_bytes = plan_config(known[name], Path(name), device=device, quantization=quantization)
        return PlannedModel(name, spec, weight_bytes, spec.context_length, None)
    path = Path(shape).expanduser()
    if path.is_dir():
        path /= "config.json"
    if not path.is_file():
        raise ModelNotFoundError(
            f"{shape} is neither a shape that is known nor a config.json; known are {', '.join(known)}."
        )
    spec, weight_bytes = read_config(path, device=device, quantization=quantization)
    return PlannedModel(spec.name, spec, weight_bytes, spec.context_length, None)


def load_shapes() -> dict[str, dict[str, Any]]:
    """The shapes that came with this installation: name -> fields of a config.json."""
    return tomllib.loads(resources.files("octavo.assets").joinpath("shapes.toml").read_text(encoding="utf-8"))


def _from_catalogue(name: str, entry: CatalogueEntry) -> PlannedModel:
    return PlannedModel(name, entry.shape.sizes(), entry.size, entry.context, None)
