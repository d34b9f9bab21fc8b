"""`octavo` and `octavo chat`: the chat screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.options import budget_options, opened_trace, trace_options
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.assistant.trace import Trace


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@budget_options
@trace_options
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
def command(trace: str | None, trace_text: bool, **flags: Any) -> int:
    """Open the chat screen (the same as `octavo` alone)."""
    # Textual paints on standard error, so a redirected one would leave the terminal black.
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise AppError("The chat screen needs a terminal; `octavo ask` answers in a script or a pipe.")
    with opened_trace(trace, with_text=trace_text) as opened:
        return open_screen(flags, opened)


def open_screen(flags: dict[str, object], trace: Trace | None = None) -> int:
    """Run the screen to its end and return the exit code. Raises what it could not start for."""
    from octavo.app.tui.app import OctavoApp
    from octavo.app.tui.backend import open_backend
    from octavo.storage.paths import Paths

    state = Paths.from_environment().state
    app = OctavoApp(
        lambda on_event: open_backend(flags, on_event if trace is None else trace.following(on_event)), state
    )
    try:
        app.run()
    finally:
        app.close_backend()
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0
