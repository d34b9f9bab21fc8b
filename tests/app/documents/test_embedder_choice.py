"""Which embedder a choice means, where it is not on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.app.documents.embedder import ensure_embedder
from octavo.app.errors import AppError, DownloadError
from octavo.storage.paths import Paths


@pytest.mark.parametrize("choice", ["", "default", "somebody/some-embedder"])
def test_what_is_no_folder_is_fetched(
    choice: str, octavo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The empty choice is the default embedder, not the current folder; nor is "default" a folder of that name."""
    (tmp_path / "default").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DownloadError, match="is not on this machine, and nothing may be downloaded"):
        ensure_embedder(choice, Paths.from_environment(), offline=True, announce=print)


def test_a_folder_without_a_model_is_refused(octavo_home: Path, tmp_path: Path) -> None:
    with pytest.raises(AppError, match="has no model"):
        ensure_embedder(str(tmp_path), Paths.from_environment(), offline=True, announce=print)
