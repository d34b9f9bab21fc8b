"""`octavo bench`: measurements a user can repeat; with --json the last line is one JSON document."""

from __future__ import annotations

import click

from octavo.app.cli.bench_concurrent import concurrent
from octavo.app.cli.bench_consistency import consistency
from octavo.app.cli.bench_decode import decode
from octavo.app.cli.bench_eviction import eviction
from octavo.app.cli.bench_fidelity import fidelity
from octavo.app.cli.bench_needle import needle
from octavo.app.cli.bench_reopen import reopen
from octavo.app.cli.bench_retrieval import retrieval
from octavo.app.cli.bench_screen import screen
from octavo.app.cli.bench_soak import soak
from octavo.app.cli.bench_startup import startup
from octavo.app.cli.bench_store import store
from octavo.app.cli.bench_summary import summary


@click.group()
def command() -> None:
    """Measure this machine. Run one bench at a time, on a quiet machine."""


command.add_command(concurrent)
command.add_command(consistency)
command.add_command(decode)
command.add_command(eviction)
command.add_command(fidelity)
command.add_command(needle)
command.add_command(reopen)
command.add_command(retrieval)
command.add_command(screen)
command.add_command(soak)
command.add_command(startup)
command.add_command(store)
command.add_command(summary)
