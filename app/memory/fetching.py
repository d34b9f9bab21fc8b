"""The NLI model fetched from the hub: its files, checked against the hub's hashes, and the model tested before use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.errors import DownloadError
from octavo.app.memory.models import FOLDER, FolderJudge
from octavo.engine.errors import EngineError

if TYPE_CHECKING:
    from octavo.app.memory.calibration import Calibration
    from octavo.storage.database import Database
    from octavo.storage.paths import Paths

REFERENCE = "cross-encoder/nli-deberta-v3-small"  # Apache-2.0
_NEEDED = frozenset(("config.json", "model.safetensors"))
_TOKENIZER = frozenset(("tokenizer.json", "spm.model", "tokenizer_config.json", "added_tokens.json"))


def fetch_nli(
    repo: str,
    paths: Paths,
    database: Database,
    *,
    announce: Callable[[str], None],
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Fetch a model from the hub, test and calibrate it, and use it from then on; returns its folder.

    Raises DownloadError if it cannot be fetched, ModelFileError or UnsupportedModelError if it is refused: then what
    was used before stays.
    """
    from octavo.app.models import hub
    from octavo.app.models.catalogue import HubSource
    from octavo.app.models.fetch import Download, fetch
    from octavo.storage.paths import create_private

    found = hub.repository(repo)
    files = [file for file in found.files if file.path in _NEEDED | _TOKENIZER]
    names = {file.path for file in files}
    if not names >= _NEEDED or not names & {"tokenizer.json", "spm.model"}:
        raise DownloadError(f"{repo} is no NLI model with config.json, model.safetensors and a tokenizer")
    folder = paths.models_dir / FOLDER
    create_private(folder.parent)
    staged = folder.with_name(f"{FOLDER}.partial")
    for file in sorted(files, key=lambda file: file.size):
        source = HubSource(found.id, file.path, found.revision)
        download = Download(file.path, staged / file.path, (source,), file.size, file.digest)
        fetch(download, progress=progress, announce=announce)
    for locks in staged.rglob(".locks"):
        shutil.rmtree(locks)
    (staged / "name.txt").write_text(found.id + "\n", encoding="utf-8")
    try:
        found_out = FolderJudge(staged, database).calibration
    except EngineError:
        shutil.rmtree(staged)
        raise
    if folder.exists():
        shutil.rmtree(folder)
    staged.rename(folder)
    announce(told(found_out))
    return folder


def told(calibration: Calibration) -> str:
    """How far a model is believed, a sentence."""
    if not calibration.is_believed:
        return "It calls too many harmless pairs contradictions, at any threshold: what it says is not believed."
    return (
        f"It is believed from {calibration.threshold:g} on: there it finds {calibration.found:.0%} of known "
        f"contradictions, and {calibration.false_alarms:.0%} of harmless pairs are called one."
    )
