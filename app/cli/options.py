"""Options that several commands have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from octavo.app.assistant.trace import Trace

Command = TypeVar("Command", bound=Callable[..., Any])


def budget_options(command: Command) -> Command:
    """The budgets of the KV cache's tiers, and its codec: settings of the same names."""
    for option in (
        click.option(
            "--vram",
            metavar="SIZE",
            help="Memory on the device, such as 6GiB: weights, workspace and KV pool (without a GPU: RAM for the last "
            "two). auto is what is free; off runs on the CPU.",
        ),
        click.option("--ram", metavar="SIZE", help="RAM for KV pages that leave the device; auto or off."),
        click.option("--disk", metavar="SIZE", help="Disk space for KV pages, which outlive the process; auto or off."),
        click.option(
            "--kv-codec", type=click.Choice(["bf16", "k8v8", "k8v4", "k4v4"]), help="How complete KV pages are stored."
        ),
    )[::-1]:
        command = option(command)
    return command


def trace_options(command: Command) -> Command:
    """Where a trace of the answers is written, and whether with their texts."""
    for option in (
        click.option(
            "--trace", metavar="FILE", help="Append one JSON line for each answer; `octavo stats` sums them up."
        ),
        click.option("--trace-text", is_flag=True, help="With --trace: the texts of questions and answers, too."),
    )[::-1]:
        command = option(command)
    return command


@contextlib.contextmanager
def opened_trace(file: str | None, *, with_text: bool) -> Iterator[Trace | None]:
    """The trace that the options ask for. Raises AppError if it cannot be written."""
    if file is None:
        if with_text:
            raise click.UsageError("--trace-text needs --trace.")
        yield None
        return
    from octavo.app.assistant.trace import Trace

    with contextlib.closing(Trace(Path(file).expanduser(), with_text=with_text)) as trace:
        yield trace
