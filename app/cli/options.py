"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

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
