"""The NLI model fetched from a small hub on loopback; the model itself is tested elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from octavo.app.memory.calibration import FILE, read_calibration
from octavo.engine.errors import ModelFileError
from octavo.engine.nli import PairScores
from octavo.storage.paths import Paths

FILES = {"config.json": b"{}", "spm.model": b"s", "model.safetensors": b"w" * 100, "README.md": b"not needed"}


class Sceptic:
    """Sees a contradiction in everything, with 0.92."""

    fingerprint, template = "f", "t"

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        return [PairScores(0.92, 0.0) for _ in pairs]


@pytest.fixture
def hub(fake_hub: Any) -> Any:
    fake_hub.files["cross-encoder/nli-deberta-v3-small"] = dict(FILES)
    return fake_hub


def test_the_files_are_fetched_and_the_model_is_tested(
    hub: Any, octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[Path] = []

    def opened(path: Path) -> Any:
        tested.append(path)
        return Sceptic()

    monkeypatch.setattr("octavo.engine.nli.open_cross_encoder", opened)

    result = octavo("memory", "fetch-nli")

    folder = Paths.from_environment().models_dir / "nli"
    assert result.code == 0, result.err
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "spm.model",
        "model.safetensors",
        "name.txt",
        FILE,
    }
    calibration = read_calibration(folder, "f")
    assert calibration is not None
    assert (calibration.threshold, calibration.found) == (0.95, 0.0)
    assert read_calibration(folder, "other weights") is None
    assert "believed from 0.95" in result.err
    assert {path.name for path in tested} == {"nli.partial"}


def test_a_model_that_is_refused_leaves_the_one_before(
    hub: Any, octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Paths.from_environment().models_dir / "nli"
    folder.mkdir(parents=True)
    (folder / "name.txt").write_text("before\n")

    def refuse(path: Path) -> None:
        raise ModelFileError("It is refused.")

    monkeypatch.setattr("octavo.engine.nli.open_cross_encoder", refuse)
    result = octavo("memory", "fetch-nli")

    assert (result.code, (folder / "name.txt").read_text()) == (1, "before\n")
    assert "refused" in result.err
    assert not folder.with_name("nli.partial").exists()


def test_a_repository_without_a_model(hub: Any, octavo: Callable[..., Any]) -> None:
    hub.files["org/other"] = {"config.json": b"{}"}

    assert "no NLI model" in octavo("memory", "fetch-nli", "org/other").err
