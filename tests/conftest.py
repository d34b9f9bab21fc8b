"""Fixtures every test may use: a home of its own, the command line, and the small real model."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest

SMALL_MODEL = "smollm2-135m"
TEST_MODELS_VARIABLE = "OCTAVO_TEST_MODELS"
_KEPT = ("OCTAVO_TEST_", "OCTAVO_NATIVE_ISA")


@pytest.fixture
def octavo_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh OCTAVO_HOME and an empty current folder; none of the developer's own variables count."""
    for name in list(os.environ):
        if name.startswith(("OCTAVO_", "XDG_", "HF_")) and not name.startswith(_KEPT):
            monkeypatch.delenv(name)
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("OCTAVO_HOME", str(home))
    monkeypatch.chdir(work)
    return home


@dataclass(frozen=True)
class CommandResult:
    """What a command wrote and returned."""

    code: int
    out: str
    err: str


@pytest.fixture
def octavo(
    octavo_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """octavo("plan", "--json", ...) runs a command in this process, in a home of its own."""
    from octavo.app.cli.main import run

    def call(*arguments: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["octavo", *arguments])
        capsys.readouterr()
        code = run()
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The small real model, fetched once as a user would fetch it, into a folder that outlives the run."""
    from octavo.app.errors import AppError
    from octavo.app.models.catalogue import load_catalogue
    from octavo.app.models.fetch import fetch_entry

    configured = os.environ.get(TEST_MODELS_VARIABLE)
    folder = Path(configured) if configured else platformdirs.user_cache_path("octavo-tests") / "models"
    entry = load_catalogue().get(SMALL_MODEL)
    assert entry is not None, f"the catalogue has no {SMALL_MODEL}"
    try:
        return fetch_entry(entry, folder).path
    except AppError as error:
        pytest.fail(f"{error} (or put {entry.file} into a folder that {TEST_MODELS_VARIABLE} names)")
