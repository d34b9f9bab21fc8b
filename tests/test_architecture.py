"""What pyproject lists against what lies in the folders."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS = ("app", "assets", "engine", "storage")


def test_every_folder_with_modules_is_a_listed_package() -> None:
    found = {
        "octavo." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.parent != ROOT / "assets" / "retrieval"  # documents that questions are asked about
    }
    assert sorted(SETUPTOOLS["packages"]) == sorted(found)
    assert SETUPTOOLS["package-dir"] == {f"octavo.{folder}": folder for folder in FOLDERS}


def test_every_kernel_source_is_compiled() -> None:
    (kernels,) = SETUPTOOLS["ext-modules"]
    native = ROOT / "engine" / "kernels" / "native"
    assert kernels["optional"] is True, "an install without a compiler must succeed"
    for key, suffix in (("sources", ".c"), ("depends", ".h")):
        found = [path.relative_to(ROOT).as_posix() for path in native.glob(f"*{suffix}")]
        assert sorted(kernels[key]) == sorted(found)


def test_torch_is_pinned_exactly() -> None:
    assert [name for name in PROJECT["project"]["dependencies"] if name.startswith("torch")] == ["torch==2.13.0"]


@pytest.mark.parametrize("name", ["ask", "tests"])
def test_readme_has_the_commands_that_ci_runs(name: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, after = readme.partition(f"<!-- command: {name} -->\n```sh\n")
    assert after.partition("```")[0].strip(), f"README.md has no block for the command {name}"
