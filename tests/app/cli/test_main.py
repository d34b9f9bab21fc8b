"""The top of the command line: what is a command, and what is the screen's."""

import click
import pytest

from octavo.app.cli import main
from octavo.app.cli.chat import command as chat


@pytest.mark.parametrize("arguments", [["chat", "--model", "m"], ["--model", "m"], ["--model=m"]])
def test_options_without_a_command_are_those_of_the_screen(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    given: list[str | None] = []
    monkeypatch.setattr(chat, "callback", lambda **flags: given.append(flags["model"]))
    main.cli.main(arguments, standalone_mode=False)
    assert given == ["m"]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_are_not(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main.cli.main(arguments, standalone_mode=False)
    assert "octavo" in capsys.readouterr().out


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(click.NoSuchOption, match="--modle"):
        main.cli.main(["--modle", "m"], standalone_mode=False)
