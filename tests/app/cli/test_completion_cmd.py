import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o nosort"), ("zsh", "#compdef octavo"), ("fish", "complete --no-files")]
)
def test_a_script_is_printed_for_each_shell(octavo: Callable[..., Any], shell: str, mark: str) -> None:
    result = octavo("completion", shell)

    assert result.code == 0
    assert mark in result.out
    assert f"_OCTAVO_COMPLETE={shell}_complete" in result.out


def test_an_unknown_shell_is_refused(octavo: Callable[..., Any]) -> None:
    result = octavo("completion", "tcsh")
    assert result.code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.err


@pytest.mark.parametrize(
    ("words", "index", "found"),
    [("octavo pl", 1, "plain,plan"), ("octavo plan --vr", 2, "plain,--vram"), ("octavo completion f", 2, "plain,fish")],
)
def test_the_script_really_completes(octavo_home: Path, words: str, index: int, found: str) -> None:
    """As the shell's script asks: by environment variables, of a fresh process."""
    code = "import sys; sys.argv[0] = 'octavo'; from octavo.app.__main__ import main; main()"
    asked = {"_OCTAVO_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}

    answer = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )

    assert answer.stdout.splitlines() == [found]
