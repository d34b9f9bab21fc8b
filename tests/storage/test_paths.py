import stat
from pathlib import Path

import pytest

from octavo.storage.errors import StorageError
from octavo.storage.paths import Paths, create_private


def test_home_variable_puts_everything_below_one_folder(octavo_home: Path) -> None:
    paths = Paths.from_environment()

    assert dict(paths.folders()) == {
        "config": octavo_home / "config",
        "data": octavo_home / "data",
        "cache": octavo_home / "cache",
        "state": octavo_home / "state",
    }
    assert paths.user_config_file == octavo_home / "config" / "octavo.toml"
    assert paths.models_dir == octavo_home / "data" / "models"


def test_xdg_variables_are_followed(octavo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTAVO_HOME")
    for name in ("config", "data", "cache", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))

    assert dict(Paths.from_environment().folders()) == {
        name: tmp_path / name / "octavo" for name in ("config", "data", "cache", "state")
    }


def test_empty_variables_count_as_unset(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("OCTAVO_HOME", "")
    for name in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", "")

    assert [str(path) for _, path in Paths.from_environment().folders()] == [
        "/home/someone/.config/octavo",
        "/home/someone/.local/share/octavo",
        "/home/someone/.cache/octavo",
        "/home/someone/.local/state/octavo",
    ]


def test_a_relative_home_is_refused(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_HOME", "here/octavo")

    with pytest.raises(StorageError, match=r"OCTAVO_HOME is 'here/octavo', a relative path"):
        Paths.from_environment()


def test_a_tilde_in_home_is_the_users_folder(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("OCTAVO_HOME", "~/octavo")

    assert Paths.from_environment().data == Path("/home/someone/octavo/data")


def test_created_folders_are_private_and_existing_ones_are_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)

    assert create_private(shared / "a" / "b") == shared / "a" / "b"
    create_private(shared / "a" / "b")

    assert [stat.S_IMODE(path.stat().st_mode) for path in (shared, shared / "a", shared / "a" / "b")] == [
        0o755,
        0o700,
        0o700,
    ]


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match="file/sub cannot be created"):
        create_private(tmp_path / "file" / "sub")
