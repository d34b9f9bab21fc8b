"""Every model there is to choose from, for `octavo models list`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo.app.models.catalogue import load_catalogue
from octavo.app.models.discover import PROGRAMS, discover
from octavo.app.models.files import size_of
from octavo.app.models.registry import Registry
from octavo.app.models.resolve import Folders, ResolvedModel, open_registry


@dataclass(frozen=True)
class ListedModel:
    """One line of the list. `path` is None for a model that is not here; `context` None if not known."""

    name: str
    size: int
    context: int | None
    state: str
    note: str
    path: Path | None
    sha256: str | None = None
    license: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "path": None if self.path is None else str(self.path)}


@dataclass(frozen=True)
class Listing:
    """All models, and the name of the one that is used when none is named."""

    models: tuple[ListedModel, ...]
    default: str


def list_all(paths: Folders) -> Listing:
    """The catalogue first, then downloads and local paths, then what other programs keep."""
    registry = open_registry(paths)
    models = (*_catalogue(registry, paths.models_dir), *_own(registry), *_found())
    return Listing(models, registry.default or load_catalogue().default)


def _catalogue(registry: Registry, models_dir: Path) -> Iterator[ListedModel]:
    for entry in load_catalogue():
        path = models_dir / entry.file
        here = path.exists()
        begun = path.with_name(f"{path.name}.partial").exists()
        yield ListedModel(
            name=entry.id,
            size=size_of(path) if here else entry.size,
            context=entry.context,
            state="here" if here else "begun" if begun else "not here",
            note=entry.note,
            path=path if here else None,
            sha256=entry.sha256 or (registry.known_sha256(path) if here else None),
            license=entry.license,
        )


def _own(registry: Registry) -> Iterator[ListedModel]:
    catalogue = load_catalogue()
    for name, record in sorted(registry.downloads.items()):
        if catalogue.get(name) is None:
            yield _listed(name, record.path, f"from {record.source}", registry)
    for name, path in sorted(registry.local.items()):
        yield _listed(name, path, f"at {path}", registry)


def _listed(name: str, path: Path, note: str, registry: Registry) -> ListedModel:
    here = path.exists()
    digest = registry.known_sha256(path) if path.is_file() else None
    return ListedModel(name, size_of(path), None, "here" if here else "gone", note, path, digest)


def _found() -> Iterator[ListedModel]:
    for model in discover():
        state = "here" if model.problem is None else "unusable"
        yield ListedModel(model.name, model.size, None, state, model.problem or "", model.path)


def origin_of(model: ResolvedModel, registry: Registry) -> str:
    """Where a model came from, in words; a file that was hashed is recognised as the catalogue's."""
    for record in registry.downloads.values():
        if record.path == model.path:
            return f"downloaded from {record.source}"
    if model.name.startswith(PROGRAMS):
        return f"kept by another program ({model.name})"
    digest = registry.known_sha256(model.path)
    same = [entry.id for entry in load_catalogue() if digest is not None and entry.sha256 == digest]
    return f"a local path, the same file as {same[0]} in the catalogue" if same else "a local path"
