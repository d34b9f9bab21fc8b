"""Models that other programs keep on this machine: the Hugging Face cache, Ollama and LM Studio. Read only.

Nothing here raises for what it finds: a broken manifest or a missing blob is listed with its problem.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.app.models.files import is_model_folder, size_of

PROGRAMS = ("hf:", "ollama:", "lmstudio:")  # what the names of found models begin with
SUPPORTED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_OLLAMA_WEIGHTS = "application/vnd.ollama.image.model"
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class FoundModel:
    """A model of another program. `name` begins with the program; `problem` says why it cannot run."""

    name: str
    path: Path
    size: int
    problem: str | None = None


def discover() -> list[FoundModel]:
    """Everything found, in a stable order; folders that do not exist are passed over."""
    found = [*_hugging_face(hugging_face_cache()), *_ollama(ollama_models())]
    for folder in dict.fromkeys(folder.resolve() for folder in lm_studio_models()):
        found.extend(_lm_studio(folder))
    return sorted(found, key=lambda model: (model.name, str(model.path)))


def hugging_face_cache() -> Path:
    """HF_HUB_CACHE, or `hub` in HF_HOME, or the library's default."""
    if explicit := os.environ.get("HF_HUB_CACHE"):
        return Path(os.path.expandvars(explicit)).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(os.path.expandvars(home)).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def ollama_models() -> Path:
    """OLLAMA_MODELS, or Ollama's default."""
    return Path(os.environ.get("OLLAMA_MODELS") or "~/.ollama/models").expanduser()


def lm_studio_models() -> list[Path]:
    """The folders that LM Studio has used by default."""
    return [Path("~/.lmstudio/models").expanduser(), Path("~/.cache/lm-studio/models").expanduser()]


def _hugging_face(cache: Path) -> Iterator[FoundModel]:
    for repo in _entries(cache):
        if not repo.name.startswith("models--"):
            continue
        name = "hf:" + repo.name.removeprefix("models--").replace("--", "/")
        snapshot = _snapshot(repo)
        if snapshot is None:
            continue
        if is_model_folder(snapshot):
            yield FoundModel(name, snapshot, size_of(snapshot), _folder_problem(snapshot))
        for file in _ggufs(snapshot):
            inside = file.relative_to(snapshot).as_posix()
            yield FoundModel(f"{name}:{inside}", file, size_of(file), _gguf_problem(file))


def _snapshot(repo: Path) -> Path | None:
    """The snapshot that `main` points to, else the newest one."""
    snapshots = {path.name: path for path in _entries(repo / "snapshots")}
    try:
        main = (repo / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        main = ""  # a pinned revision leaves no refs/main
    newest = max(snapshots.values(), key=lambda path: path.lstat().st_mtime, default=None)
    return snapshots.get(main, newest)


def _ollama(models: Path) -> Iterator[FoundModel]:
    """Manifests lie at HOST/NAMESPACE/NAME/TAG and name their blobs by digest."""
    manifests = models / "manifests"
    for manifest in sorted(manifests.glob("*/*/*/*")):
        if not manifest.is_file():
            continue
        _, namespace, model, tag = manifest.relative_to(manifests).parts
        name = f"ollama:{model}:{tag}" if namespace == "library" else f"ollama:{namespace}/{model}:{tag}"
        digest = _ollama_digest(manifest)
        if digest is None:
            yield FoundModel(name, manifest, 0, "its manifest names no model file")
            continue
        blob = models / "blobs" / digest.replace(":", "-")
        yield FoundModel(name, blob, size_of(blob), _gguf_problem(blob))


def _ollama_digest(manifest: Path) -> str | None:
    try:
        data: Any = json.loads(manifest.read_text(encoding="utf-8"))
        layers = [item["digest"] for item in data["layers"] if item["mediaType"] == _OLLAMA_WEIGHTS]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    valid = len(layers) == 1 and re.fullmatch(r"sha256:[0-9a-f]{64}", str(layers[0]))
    return str(layers[0]) if valid else None


def _lm_studio(folder: Path) -> Iterator[FoundModel]:
    for publisher in _entries(folder):
        for repo in _entries(publisher):
            name = f"lmstudio:{publisher.name}/{repo.name}"
            if is_model_folder(repo):
                yield FoundModel(name, repo, size_of(repo), _folder_problem(repo))
            for file in _ggufs(repo):
                inside = file.relative_to(repo).as_posix()
                yield FoundModel(f"{name}/{inside}", file, size_of(file), _gguf_problem(file))


def _ggufs(folder: Path) -> Sequence[Path]:
    """GGUF files below `folder` that hold a language model (an mmproj file is a vision projector)."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() == ".gguf")
    return sorted(path for path in files if not path.name.lower().startswith("mmproj"))


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(item for item in folder.iterdir() if item.is_dir() and not item.name.startswith("."))
    except OSError:
        return []


def _gguf_problem(path: Path) -> str | None:
    """What one look at the first bytes can tell; the full check is made before a model is used."""
    if _SPLIT.search(path.name):
        return "it is one part of a split file"
    try:
        with path.open("rb") as stream:
            return None if stream.read(4) == b"GGUF" else "it is not a GGUF file"
    except FileNotFoundError:
        return f"its file {path.name} is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _folder_problem(folder: Path) -> str | None:
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        family = config["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        return "its config.json is not readable"
    return None if family in SUPPORTED_FAMILIES else f"the architecture {family} is not supported"
