"""`octavo bench startup`: from process start to the first painted frame, in a pseudo-terminal, and to a first token."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any

import click

from octavo.app.errors import AppError

# Text of the screen's first frame; nothing before it is painted.
FIRST_FRAME = b"Ask anything"
_ROWS, _COLUMNS = 40, 120
_LONGEST = 30.0  # seconds after which a start counts as failed


@click.command()
@click.option("--runs", type=click.IntRange(1, 100), default=5, show_default=True, help="Starts to measure.")
@click.option("--model", metavar="NAME|PATH", help="Whose first token is waited for: a name, .gguf file or folder.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def startup(runs: int, model: str | None, as_json: bool) -> None:
    """Seconds from process start to the first painted frame, and to the first token of an answer.

    Each run is a process of its own; those that paint do so in a pseudo-terminal and in an empty home, those that
    answer load the model that is in use here. Medians count. A model that is not here is not fetched.
    """
    if os.name != "posix":
        raise AppError("The start can only be measured where there are pseudo-terminals, on Linux and macOS.")
    times = [first_frame_seconds([sys.executable, "-m", "octavo.app"]) for _ in range(runs)]
    for number, seconds in enumerate(times, start=1):
        click.echo(f"run {number}: {seconds:.3f} s")
    median = statistics.median(times)
    click.echo(f"first frame after {median:.3f} s (median of {runs})")
    document: dict[str, Any] = {"first_frame_s": round(median, 4), "runs_s": [round(seconds, 4) for seconds in times]}
    if is_model_here(model):
        document |= first_token_seconds(runs, model)
        click.echo(
            f"first token after {document['first_token_s']:.3f} s: imports {document['import_s']:.3f} s, loading "
            f"{document['load_s']:.3f} s; loading takes {document['loading_mb']:.0f} MB of RAM for "
            f"{document['weights_mb']:.0f} MB of weights (medians of {runs})"
        )
    else:
        click.echo("The model is not here, so no first token is measured; `octavo models pull` fetches it.")
    if as_json:
        click.echo(json.dumps(document))


def is_model_here(model: str | None) -> bool:
    from octavo.app.models.resolve import resolve_model
    from octavo.app.settings import load_settings
    from octavo.storage.paths import Paths

    return resolve_model(None, load_settings({"model": model}), Paths.from_environment()).path.exists()


def first_token_seconds(runs: int, model: str | None) -> dict[str, float]:
    """Medians of what `first_token.measure` finds. Raises AppError if a process fails, with what it said."""
    found = []
    for _ in range(runs):
        command = [sys.executable, "-m", "octavo.app.cli.first_token", str(time.time()), model or ""]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            said = result.stderr.strip().splitlines() or ["it gives no reason"]
            raise AppError(f"The process that answers failed: {said[-1]}")
        found.append(json.loads(result.stdout.splitlines()[-1]))
    return {key: statistics.median(each[key] for each in found) for key in found[0]}


def first_frame_seconds(command: list[str]) -> float:
    """Start `command` in a pseudo-terminal and return the seconds until its first frame was written out.

    Raises AppError if it ends or says nothing of the kind within half a minute.
    """
    import fcntl
    import pty
    import termios

    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as home:
        environment = {**os.environ, "OCTAVO_HOME": home, "TERM": "xterm-256color"}
        started = time.perf_counter()
        pid, terminal = pty.fork()
        if pid == 0:
            _become(command, environment)
        try:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
            _read_until(terminal, FIRST_FRAME, started)
            return time.perf_counter() - started
        finally:
            os.kill(pid, signal.SIGTERM)
            _drain(terminal)
            os.waitpid(pid, 0)
            os.close(terminal)


def _become(command: list[str], environment: dict[str, str]) -> None:
    """In the child: become the command, or end without touching what belongs to the parent."""
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606
    finally:
        os._exit(127)


def _read_until(terminal: int, mark: bytes, started: float) -> None:
    seen = b""
    while mark not in seen:
        left = started + _LONGEST - time.perf_counter()
        ready, _, _ = select.select([terminal], [], [], max(left, 0.0))
        chunk = b""
        with contextlib.suppress(OSError):  # on Linux, reading what a dead process left behind
            chunk = os.read(terminal, 65_536) if ready else b""
        if not chunk:
            raise AppError("The screen did not paint; start `octavo` by hand to see why.")
        seen = seen[-len(mark) :] + chunk


def _drain(terminal: int) -> None:
    """Read until the child is gone, or it would wait for room to write its last words."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 65_536):
            pass
