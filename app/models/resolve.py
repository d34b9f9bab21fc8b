"""From what a person typed, or did not type, to one model; and from that to a file that is really there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from octavo.app.errors import DownloadError, ModelNotFoundError
from octavo.app.models import hub
from octavo.app.models.catalogue import CatalogueEntry, load_catalogue
from octavo.app.models.discover import PROGRAMS, FoundModel, discover
from octavo.app.models.fetch import Announce, Progress, fetch_entry
from octavo.app.models.files import is_model_folder
from octavo.app.models.registry import DownloadRecord, Registry
from octavo.app.models.text import human_size


class Settings(Protocol):
    """The settings this module reads."""

    @property
    def model(self) -> str | None: ...
    @property
    def offline(self) -> bool: ...


class Folders(Protocol):
    """The places this module reads and writes."""

    @property
    def models_dir(self) -> Path: ...


def open_registry(paths: Folders) -> Registry:
    """The registry that belongs to these folders."""
    return Registry(paths.models_dir / "registry.json")


@dataclass(frozen=True)
class ResolvedModel:
    """One model: what it is called, where its file or folder is or will be, and its catalogue entry, if any.

    `sha256` is known for catalogue files and for files hashed before; it costs no reading.
    """

    name: str
    path: Path
    entry: CatalogueEntry | None = None
    sha256: str | None = None

    @property
    def present(self) -> bool:
        return self.path.exists()


def resolve_model(name_or_path: str | None, settings: Settings, paths: Folders) -> ResolvedModel:
    """The model to use: the one asked for, else the settings' (flag, environment, files), else the chosen
    default (`octavo models use`), else the embedded default.

    Raises:
        ModelNotFoundError: no model or file of that name, or several.
    """
    registry = open_registry(paths)
    wanted = name_or_path or settings.model or registry.default or load_catalogue().default
    return find_model(wanted, registry, paths.models_dir)


def find_model(wanted: str, registry: Registry, models_dir: Path) -> ResolvedModel:
    """See `resolve_model`. A catalogue name comes before a file of the same name in the current folder."""
    entry = load_catalogue().get(wanted)
    if entry is not None:
        return ResolvedModel(entry.id, models_dir / entry.file, entry, entry.sha256)
    path = Path(wanted).expanduser()
    if path.exists():
        return _at_path(path.absolute(), registry)
    if _looks_like_path(wanted):
        raise ModelNotFoundError(f"There is no file or folder {path.absolute()}.")
    own = _own_models(registry)
    if wanted in own:
        return _known(wanted, own[wanted], registry)
    matches = [name for name in own if wanted in _short_forms(name)]
    if len(matches) == 1:
        return _known(matches[0], own[matches[0]], registry)
    return _among_found(wanted, matches, own, registry)


def _own_models(registry: Registry) -> dict[str, Path]:
    downloads = {name: record.path for name, record in registry.downloads.items()}
    return {**registry.local, **downloads}


def _among_found(wanted: str, matches: list[str], own: dict[str, Path], registry: Registry) -> ResolvedModel:
    """Look among other programs' models, which takes a walk through their folders."""
    found = discover()
    exact = [model for model in found if model.name == wanted]
    candidates = exact or [model for model in found if wanted in _short_forms(model.name)]
    if len(candidates) == 1 and not matches:
        return _usable(candidates[0], registry)
    ambiguous = [*matches, *(model.name for model in candidates)]
    if ambiguous:
        raise ModelNotFoundError(f"{wanted} could be any of {', '.join(sorted(ambiguous))}; say which, or give a path.")
    known = [entry.id for entry in load_catalogue()]
    known += [*own, *(model.name for model in found)]
    raise ModelNotFoundError(_unknown(wanted, known))


def _short_forms(name: str) -> set[str]:
    """Shorter ways to say a full name: without the program, the file, the folder or the tag."""
    program = next((program for program in PROGRAMS if name.startswith(program)), "")
    bare = name.removeprefix(program)
    forms = {bare, bare.partition(":")[0]}
    if program != "ollama:":
        file = bare.rsplit("/", 1)[-1].rsplit(":", 1)[-1]
        repo = "/".join(bare.split("/")[:2]) if "/" in bare else bare
        forms |= {file, file.removesuffix(".gguf"), repo.partition(":")[0]}
    return forms | {program + form for form in forms}


def _unknown(wanted: str, known: Iterable[str]) -> str:
    names = list(known)
    lowered = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(wanted.casefold(), lowered, n=3, cutoff=0.5)
    if close:
        hint = f"did you mean {' or '.join(lowered[name] for name in close)}?"
    elif "/" in wanted:
        hint = f"`octavo models pull {wanted}` fetches it from the hub, if it is there."
    else:
        hint = "`octavo models list` shows what there is."
    return f"No model is called {wanted}; {hint}"


def _looks_like_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~")) or text == "." or "\\" in text


def _at_path(path: Path, registry: Registry) -> ResolvedModel:
    if path.is_dir() and not is_model_folder(path):
        raise ModelNotFoundError(
            f"{path} is not a model folder: it needs a config.json and weights in .safetensors files."
        )
    for name, known in _own_models(registry).items():
        if known == path:
            return _known(name, path, registry)
    name = path.stem if path.is_file() else path.name
    taken = load_catalogue().get(name) is not None or name in _own_models(registry)
    return _known(f"{path.parent.name}/{name}" if taken else name, path, registry)


def _usable(model: FoundModel, registry: Registry) -> ResolvedModel:
    if model.problem is not None:
        raise ModelNotFoundError(f"{model.name} cannot be used: {model.problem}.")
    return _known(model.name, model.path, registry)


def _known(name: str, path: Path, registry: Registry) -> ResolvedModel:
    digest = registry.known_sha256(path) if path.is_file() else None
    entry = next((item for item in load_catalogue() if digest is not None and item.sha256 == digest), None)
    return ResolvedModel(name, path, entry, digest)


def choose_default(model: ResolvedModel, registry: Registry) -> None:
    """Remember `model` as the default; a file or folder of the user's own is registered where it lies."""
    if load_catalogue().get(model.name) is not None or _is_registered(model, registry):
        registry.set_default(model.name)
        return
    registry.add_local(model.name, model.path)
    registry.set_default(str(model.path))


def _is_registered(model: ResolvedModel, registry: Registry) -> bool:
    """True if the name alone leads back to this file: a download, or another program's model."""
    return model.name in registry.downloads or model.name.startswith(PROGRAMS)


def ensure_model(
    model: ResolvedModel,
    paths: Folders,
    *,
    offline: bool,
    announce: Announce,
    progress: Progress | None = None,
) -> Path:
    """The path of the model's file or folder, fetched first if it is a catalogue model that is not here.

    Raises:
        DownloadError, IntegrityError: it could not be fetched, or must not be (`offline`, HF_HUB_OFFLINE).
        ModelNotFoundError: the file of a model that is not in the catalogue has gone.
    """
    if model.present:
        return model.path
    entry = model.entry
    if entry is None:
        raise ModelNotFoundError(f"{model.name} was at {model.path}, and there is nothing there now.")
    _forbid_entry(entry, offline=offline)
    announce(
        f"{entry.name} ({human_size(entry.size)}, {entry.license}) is not on this machine yet; "
        f"it is fetched once, to {model.path.parent}."
    )
    return pull_entry(entry, paths, offline=offline, announce=announce, progress=progress)


def pull_entry(
    entry: CatalogueEntry,
    paths: Folders,
    *,
    offline: bool,
    announce: Announce,
    progress: Progress | None = None,
) -> Path:
    """Fetch a catalogue entry, make sure the engine can run it, and record that the file is Octavo's.

    A file that is there is verified instead. Errors as `ensure_model`.
    """
    from octavo.app.models.check import check_model

    registry = open_registry(paths)
    target = paths.models_dir / entry.file
    if not target.exists() or entry.sha256 not in (None, registry.sha256(target)):
        _forbid_entry(entry, offline=offline)
    fetched = fetch_entry(
        entry,
        paths.models_dir,
        progress=progress,
        announce=announce,
        check=lambda partial: check_model(partial, name=entry.file),
        registry=registry,
    )
    if fetched.source is not None or entry.id not in registry.downloads:
        source = str(fetched.source or "an earlier download")
        registry.add_download(entry.id, DownloadRecord(fetched.path, source))
    return fetched.path


def _forbid_entry(entry: CatalogueEntry, *, offline: bool) -> None:
    forbid_offline(entry.name, f"`octavo models pull {entry.id}`", offline=offline, size=entry.size)


def forbid_offline(name: str, command: str, *, offline: bool, size: int | None = None) -> None:
    """Raise DownloadError if downloads are forbidden, naming what forbids them and how to get the model."""
    if not offline and not hub.hub_offline():
        return
    what = f"{name} ({human_size(size)})" if size else name
    why = "offline mode is on" if offline else "HF_HUB_OFFLINE is set"
    raise DownloadError(
        f"{what} is not on this machine, and {why}: run {command} once while online, "
        "or name a model that is here (`octavo models list`)"
    )
