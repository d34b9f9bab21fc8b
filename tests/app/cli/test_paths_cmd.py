import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_paths_are_printed_with_those_that_are_missing(octavo: Callable[..., Any], octavo_home: Path) -> None:
    (octavo_home / "data").mkdir(parents=True)

    result = octavo("paths")

    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split("  ") == ["config", *[""] * 5, f"{octavo_home}/config", "(not there yet)"]
    assert lines[1].endswith(f"{octavo_home}/data")


def test_paths_as_json(octavo: Callable[..., Any], octavo_home: Path) -> None:
    Path("octavo.toml").write_text("")

    rows = json.loads(octavo("paths", "--json").out)

    assert list(rows) == ["config", "data", "cache", "state", "models", "user_settings", "project_settings"]
    assert rows["models"] == {"path": str(octavo_home / "data" / "models"), "exists": False}
    assert rows["user_settings"]["path"] == str(octavo_home / "config" / "octavo.toml")
    assert rows["project_settings"] == {"path": str(Path("octavo.toml").absolute()), "exists": True}


def test_a_relative_home_is_one_sentence_and_a_code(octavo: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("OCTAVO_HOME", "here")

    result = octavo("paths")

    assert result.code != 0
    assert result.out == ""
    assert result.err == "Error: OCTAVO_HOME is 'here', a relative path; it must be an absolute one.\n"
