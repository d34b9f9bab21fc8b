"""Pulling a hub repository by name: which of its files to take, and a safetensors folder as a whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from octavo.app.errors import DownloadError
from octavo.app.models import hub
from octavo.app.models.catalogue import HubSource
from octavo.app.models.check import check_config, check_model
from octavo.app.models.discover import SUPPORTED_FAMILIES
from octavo.app.models.fetch import Announce, Download, Progress, fetch
from octavo.app.models.files import is_model_folder, sync_folder
from octavo.app.models.hub import RepoFile, Repository
from octavo.app.models.locks import file_lock
from octavo.app.models.registry import DownloadRecord, Registry
from octavo.app.models.text import human_size
from octavo.engine.errors import EngineError

_PREFERRED = "q4_k_m"
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_FOLDER_FILES = frozenset(
    (
        "added_tokens.json",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "merges.txt",
        "model.safetensors.index.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
    )
)
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")


@dataclass(frozen=True)
class RepoName:
    """What `ORG/NAME[:FILE]` says."""

    repo: str
    file: str | None


def parse_repo_name(text: str) -> RepoName | None:
    """None unless `text` is a repository's name, with or without a file."""
    match = re.fullmatch(r"(?:hf:)?([\w.-]+/[\w.-]+)(?::(\S+))?", text)
    return RepoName(match[1], match[2]) if match else None


def pull_repository(
    name: RepoName,
    models_dir: Path,
    registry: Registry,
    *,
    announce: Announce,
    progress: Progress | None = None,
) -> tuple[str, Path]:
    """Download one GGUF file or one safetensors folder and record it; returns its name and path.

    Raises:
        DownloadError, IntegrityError: nothing suitable there, several choices, no connection or permission.
        ModelFileError, UnsupportedModelError: the engine cannot run it; nothing of it stays.
    """
    found = hub.repository(name.repo)
    folder = models_dir.joinpath(*name.repo.split("/"))
    ggufs = [file for file in found.files if _is_model_gguf(file)]
    if not ggufs and name.file is None and _folder_files(found):
        _refuse_family(found)
        _pull_folder(found, folder, announce, progress)
        label, path = name.repo, folder
    else:
        chosen = choose_gguf(found.id, ggufs, name.file)
        _refuse_family(found)
        label = f"{name.repo}:{chosen.path}"
        path = _pull_gguf(found, chosen, folder, registry, announce, progress)
    registry.add_download(label, DownloadRecord(path, f"the hub ({name.repo})"))
    return label, path


def choose_gguf(repo: str, files: Sequence[RepoFile], wanted: str | None) -> RepoFile:
    """The one file meant by `wanted` (a path, a file name or a quantization), else the Q4_K_M one.

    Raises:
        DownloadError: none or several fit; the text lists the choices.
    """
    if not files:
        raise DownloadError(f"{repo} has no GGUF file and no safetensors model that Octavo could use")
    fitting = list(files) if wanted is None else [file for file in files if _means(wanted, file)]
    preferred = [file for file in fitting if _PREFERRED in file.path.lower()]
    for candidates in (fitting, preferred):
        if len(candidates) == 1:
            return candidates[0]
    choices = ", ".join(f"{file.path} ({human_size(file.size)})" for file in (fitting or files))
    problem = "has several files" if fitting else f"has no file {wanted}"
    raise DownloadError(f"{repo} {problem}; name one as {repo}:FILE, of {choices}")


def _means(wanted: str, file: RepoFile) -> bool:
    path = PurePosixPath(file.path)
    exact = wanted.casefold() in (file.path.casefold(), path.name.casefold(), path.stem.casefold())
    return exact or re.search(rf"[-._]{re.escape(wanted)}\.gguf$", path.name, re.IGNORECASE) is not None


def _is_model_gguf(file: RepoFile) -> bool:
    path = PurePosixPath(file.path)
    usable = path.suffix.lower() == ".gguf" and not path.name.lower().startswith("mmproj")
    return usable and not _SPLIT.search(path.name) and _is_plain(path)


def _is_plain(path: PurePosixPath) -> bool:
    """True for a path that stays inside its folder, whatever a server claims its files are called."""
    return not path.is_absolute() and ".." not in path.parts and "\\" not in str(path)


def _folder_files(found: Repository) -> list[RepoFile]:
    """config.json, the other small files, then the weights; empty if this is no safetensors model."""
    plain = sorted(
        (file for file in found.files if file.path in _FOLDER_FILES),
        key=lambda file: file.path != "config.json",
    )
    weights = [file for file in found.files if _WEIGHTS.fullmatch(file.path)]
    complete = weights and plain and plain[0].path == "config.json"
    return plain + weights if complete else []


def _refuse_family(found: Repository) -> None:
    """Spare the user a download of gigabytes that the engine would refuse."""
    if found.architecture is not None and found.architecture not in SUPPORTED_FAMILIES:
        raise DownloadError(
            f"{found.id} has the architecture {found.architecture}, which is not supported; "
            f"supported are {', '.join(SUPPORTED_FAMILIES)}"
        )


def _pull_gguf(
    found: Repository,
    file: RepoFile,
    folder: Path,
    registry: Registry,
    announce: Announce,
    progress: Progress | None,
) -> Path:
    name = PurePosixPath(file.path).name
    download = Download(
        label=name,
        target=folder.joinpath(*PurePosixPath(file.path).parts),
        sources=(HubSource(found.id, file.path, found.revision),),
        size=file.size,
        digest=file.digest,
        check=lambda partial: check_model(partial, name=name),
    )
    return fetch(download, progress=progress, announce=announce, registry=registry).path


def _pull_folder(found: Repository, folder: Path, announce: Announce, progress: Progress | None) -> None:
    """Download beside the final place; the folder appears only once everything is there and checked."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder, announce):
        if is_model_folder(folder):
            announce(f"{folder} is there already.")
            return
        if folder.exists():
            raise DownloadError(f"{folder} holds other files of {found.id}; remove them first")
        staging = folder.with_name(f"{folder.name}.partial")
        try:
            _fill(found, staging, announce, progress)
            check_model(staging, name=found.id)
        except EngineError:
            shutil.rmtree(staging)
            raise
        shutil.rmtree(staging / ".locks")
        staging.rename(folder)
        sync_folder(folder.parent)


def _fill(found: Repository, staging: Path, announce: Announce, progress: Progress | None) -> None:
    """Fetch every file the folder needs; what an earlier try left there is kept where its hash is right."""
    files = _folder_files(found)
    total, before = sum(file.size for file in files), 0
    announce(f"Fetching {found.id} ({len(files)} files, {human_size(total)}) from the hub.")
    for file in files:

        def show(done: int, size: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, total)

        source = HubSource(found.id, file.path, found.revision)
        fetch(Download(file.path, staging / file.path, (source,), file.size, file.digest), progress=show)
        if file.path == "config.json":
            check_config(staging, name=found.id)
        before += file.size
