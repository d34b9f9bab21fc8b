"""`octavo bench soak`: many turns through the screen, and what they leave behind in memory, files and threads."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from octavo.app.tui.app import OctavoApp

_TURNS_A_CONVERSATION = 20
_LONGEST_S = 120.0


@dataclass(frozen=True, slots=True)
class SoakRow:
    """After so many turns; sizes in MB of 10^6 bytes. Of the RSS, `kv_mb` lie in slots of the KV pool that held a page
    so far: the pool is the process's from the start, and the system counts a slot from its first use on. `conserved`
    tells whether slots and rows still add up.
    """

    turns: int
    rss_mb: float
    kv_mb: float
    open_files: int
    threads: int
    database_mb: float
    store_mb: float
    conserved: bool


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--turns", type=click.IntRange(10), default=1_000, show_default=True, help="Questions to ask.")
@click.option(
    "--tokens", type=click.IntRange(1, 1_000), default=4, show_default=True, help="Longest answer, in tokens."
)
@click.option("--rows", type=click.IntRange(2, 100), default=10, show_default=True, help="Measurements to print.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def soak(model: str | None, turns: int, tokens: int, rows: int, as_json: bool) -> None:
    """Ask many questions through the screen, painted without a terminal, in a home of its own.

    Every twentieth turn begins a conversation, every tenth is stopped, and some conversations are deleted. The RSS
    grows until the KV pool was filled once; what it grows beside that is said at the end.
    """
    from octavo.app.models.resolve import resolve_model
    from octavo.app.settings import load_settings
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    found = resolve_model(None, load_settings({"model": model}, paths=paths), paths)
    if not found.present:
        raise AppError(f"{found.name} is not on this machine; `octavo models pull {found.name}` fetches it.")
    flags: dict[str, object] = {"model": str(found.path.absolute()), "generation": {"max_tokens": tokens}}
    click.echo(
        f"{'turns':>6} {'RSS MB':>8} {'KV of it':>9} {'files':>6} {'threads':>8} {'database MB':>12} {'store MB':>9}"
        "  conserved"
    )
    with tempfile.TemporaryDirectory(prefix="octavo-soak-") as home:
        os.environ["OCTAVO_HOME"] = home
        started = time.perf_counter()
        measured = asyncio.run(_soak(flags, turns, max(turns // rows, 1)))
        seconds = time.perf_counter() - started
    click.echo(f"{turns:,} turns in {seconds:.0f} s; {growth(measured)}")
    if as_json:
        click.echo(json.dumps({"seconds": round(seconds, 1), "rows": [asdict(row) for row in measured]}))


async def _soak(flags: dict[str, object], turns: int, every: int) -> list[SoakRow]:
    from octavo.app.tui.app import OctavoApp
    from octavo.app.tui.backend import open_backend

    app = OctavoApp(lambda on_event: open_backend(flags, on_event))
    measured: list[SoakRow] = []
    try:
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: bool(app.chat.status.figures.limit), "the model")
            for turn in range(turns):
                await _turn(app, pilot, turn)
                if turn in (every // 10, every // 2) or (turn + 1) % every == 0:
                    measured.append(_measure(app, turn + 1))
                    _print(measured[-1])
    finally:
        app.close_backend()
    return measured


async def _turn(app: OctavoApp, pilot: Pilot[None], turn: int) -> None:
    chat = app.chat
    if turn % _TURNS_A_CONVERSATION == 0:
        if turn % (3 * _TURNS_A_CONVERSATION) == 0 and chat.conversation_id is not None:
            chat._delete(chat.conversation_id)
            await until(pilot, lambda: chat.conversation_id is None, "the deletion")
        await chat.show_new()
    await chat.send(f"Question {turn}: what is {turn} plus {turn % 7}?")
    if turn % 10 == 9:
        await until(pilot, lambda: chat.live_id is not None or not chat.is_busy, "the answer")
        chat.stop()
    await until(pilot, lambda: not chat.is_busy, "the end of the answer")


def _measure(app: OctavoApp, turns: int) -> SoakRow:
    import psutil

    from octavo.storage.paths import Paths

    paths, process = Paths.from_environment(), psutil.Process()
    snapshot = app.chat.backend.engine.watch.snapshot if app.chat.backend is not None else None
    engine = snapshot.engine if snapshot is not None else None
    conserved = engine is not None and engine.slots.in_use == 0 and engine.tails.in_use == 0 and engine.slots.free >= 0
    return SoakRow(
        turns,
        round(process.memory_info().rss / 1e6, 1),
        round(engine.most_occupied / 1e6, 1) if engine is not None and engine.cuda is None else 0.0,
        process.num_fds() if hasattr(process, "num_fds") else 0,
        threading.active_count(),
        round(_size(paths.database_file.parent, f"{paths.database_file.name}*") / 1e6, 2),
        round(_size(paths.pages_dir, "*") / 1e6, 1),
        conserved,
    )


def _size(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()) if folder.is_dir() else 0


def _print(row: SoakRow) -> None:
    click.echo(
        f"{row.turns:>6,} {row.rss_mb:>8.1f} {row.kv_mb:>9.1f} {row.open_files:>6} {row.threads:>8} "
        f"{row.database_mb:>12.2f} {row.store_mb:>9.1f}  {'yes' if row.conserved else 'no'}"
    )


def growth(rows: Sequence[SoakRow]) -> str:
    """What the second half of the turns added to the RSS, in words."""
    last = rows[-1]
    first = min(rows, key=lambda row: abs(row.turns - last.turns / 2))
    added, kv = last.rss_mb - first.rss_mb, last.kv_mb - first.kv_mb
    turns = max(last.turns - first.turns, 1)
    return (
        f"from turn {first.turns:,} on the RSS grew by {added:.1f} MB, of which {kv:.1f} MB are KV and "
        f"{added - kv:.1f} MB ({1e3 * (added - kv) / turns:.0f} kB a turn) are not"
    )


async def until(pilot: Pilot[None], condition: Callable[[], bool], what: str) -> None:
    """Let the screen run until something is so. Raises AppError if it does not become so."""
    ends = time.monotonic() + _LONGEST_S
    while not condition():
        if time.monotonic() > ends:
            raise AppError(f"{what} did not come within {_LONGEST_S:.0f} s; `octavo doctor` may say why.")
        await pilot.pause(0.01)
