"""`octavo bench screen`: how soon the screen shows a key, beside a table of a million tokens and while text is read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.bench_soak import until

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from octavo.app.tui.backend import OpenBackend
    from octavo.engine.inspection import PageMap

GOAL_MS = 50.0
_LONGEST_WAIT_S = 2.0
_SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@click.command()
@click.option("--model", metavar="NAME|PATH", help="The model that reads; by default the one in use.")
@click.option("--tokens", type=click.IntRange(0), default=0, help="Read a prompt of so many tokens meanwhile; 0: none.")
@click.option(
    "--table", type=click.IntRange(1_000), default=1_000_000, show_default=True, help="Tokens of the page map."
)
@click.option(
    "--keys", type=click.IntRange(10, 10_000), default=200, show_default=True, help="Keys to press in each part."
)
@click.option(
    "--idle", type=click.IntRange(0, 600), default=0, help="Also the processor's time over so many idle seconds."
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def screen(model: str | None, tokens: int, table: int, keys: int, idle: int, as_json: bool) -> None:
    """Milliseconds from a key to the paint that shows it, without a terminal to send it to.

    Beside the longest stands how much of it the screen's thread was ready and waited for a processor (queued).

    Once in the input of the chat, once in the inspection panel's heat map over a page map of --table tokens; both while
    the model reads, where --tokens are given.
    """
    figures = asyncio.run(
        _measure({"model": model, "context": tokens + 2_048 if tokens else None}, tokens, table, keys, idle)
    )
    for name, value in figures.items():
        click.echo(f"{name:<34} {value:,.1f}" if isinstance(value, float) else f"{name:<34} {value}")
    worst = max(value for name, value in figures.items() if name.endswith("p95_ms"))
    click.echo(f"p95 {worst:.1f} ms, {'within' if worst <= GOAL_MS else 'above'} the goal of {GOAL_MS:.0f} ms")
    if as_json:
        click.echo(json.dumps({name: round(value, 2) for name, value in figures.items()}))


def watched_app(open_backend: OpenBackend) -> Any:
    """The program, which tells when a paint shows what was expected; Textual is imported only here."""
    from octavo.app.tui.app import OctavoApp

    class Watched(OctavoApp):
        painted = 0.0
        _state: Callable[[], object] = staticmethod(lambda: None)
        _before: object = None

        def expect(self, state: Callable[[], object]) -> None:
            self._state, self._before, self.painted = state, state(), 0.0

        def _display(self, screen: Any, renderable: Any) -> None:
            super()._display(screen, renderable)
            if not self.painted and self._state() != self._before:
                if hasattr(renderable, "render_segments"):  # what a terminal would be sent is made, and not sent
                    renderable.render_segments(self.console)
                self.painted = time.perf_counter()

    return Watched(open_backend)


async def _measure(flags: dict[str, object], tokens: int, table: int, keys: int, idle: int) -> dict[str, float]:
    from octavo.app.tui.backend import open_backend
    from octavo.app.tui.collector import spare_the_screen

    app = watched_app(lambda on_event: open_backend(flags, on_event))
    figures: dict[str, float] = {}
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: bool(app.chat.status.figures.limit), "the model")
            spare_the_screen()  # as the screen does in a terminal
            if idle:
                figures["idle_cpu_percent"] = await _idle(idle)
            if tokens:
                await _begin_reading(app, pilot, tokens)
            figures |= _spread(
                "chat", await _press(app, ["a", "b", "space", "backspace"], keys, lambda: app.chat.prompt.text)
            )
            figures |= await _heat_map(app, pilot, table, keys)
            if tokens:
                figures["still_reading"] = float(app.chat.is_busy)
                app.chat.stop()
                await until(pilot, lambda: not app.chat.is_busy, "the end of the answer")
    finally:
        app.close_backend()
    return figures


async def _idle(seconds: int) -> float:
    """Percent of one core that the whole process used while nobody did anything."""
    await asyncio.sleep(2)
    started, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return 100 * (time.process_time() - used) / (time.perf_counter() - started)


async def _begin_reading(app: Any, pilot: Pilot[None], tokens: int) -> None:
    """Send text of about so many tokens, and wait until the engine reads it."""
    from importlib import resources

    play = resources.files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8")
    text = play
    while len(text) < 4 * tokens:
        text += play
    await app.chat.send(f"{text[: 3 * tokens]}\n\nWhat happens in it? {time.time()}")
    await until(pilot, lambda: app.chat.live_id is not None, "the answer")


async def _press(app: Any, keys: list[str], count: int, state: Callable[[], object]) -> list[tuple[float, float]]:
    """Milliseconds from each key to the first paint of another `state`, and how many of them this thread waited for a
    processor that something else had; keys that change nothing do not count.
    """
    from textual import events

    times = []
    for number in range(count):
        key = keys[number % len(keys)]
        app.expect(state)
        started, queued = time.perf_counter(), _queued_ms()
        app.post_message(events.Key(key, key if len(key) == 1 else " " if key == "space" else None))
        ends = started + _LONGEST_WAIT_S
        while not app.painted and time.perf_counter() < ends:
            await asyncio.sleep(0.001)
        if app.painted:
            taken = 1e3 * (app.painted - started)
            times.append((taken, min(_queued_ms() - queued, taken)))
        await asyncio.sleep(0.05)
    return times


async def _heat_map(app: Any, pilot: Pilot[None], table: int, keys: int) -> dict[str, float]:
    """The same in the panel, over a page map that no engine has."""
    from octavo.app.assistant.watch import Look, PagesShown

    assert app.chat.backend is not None
    pages = synthetic_map(table)
    if app.chat.conversation_id is None:
        app.chat.conversation_id = "bench"
    watch: Any = app.chat.backend.engine.watch

    def look(asked: Look) -> None:
        app.chat.events.push(PagesShown(asked, pages, None, ""))

    watch.look = look
    await pilot.press("f2")
    await until(pilot, lambda: app.chat.inspecting is not None, "the panel")
    panel = app.chat.inspecting
    assert panel is not None
    from octavo.app.tui.widgets.heat_map import HeatMap

    heat = panel.query_one(HeatMap)
    await until(pilot, lambda: heat.pages is not None and heat.has_focus, "the page map")
    names = ["right", "down", "plus", "end", "m", "minus", "left", "home"]
    times = await _press(app, names, keys, lambda: (heat.cursor_page, heat.cursor_row, heat.view, heat.metric))
    await pilot.press("escape")
    return _spread("heat_map", times) | {"heat_map_pages": float(pages.num_pages)}


def synthetic_map(tokens: int, num_layers: int = 30, page_size: int = 32) -> PageMap:
    """A page map of so many tokens, filled with numbers that look like use."""
    import numpy as np

    from octavo.engine.inspection import PageMap

    rng = np.random.default_rng(0)
    shape = (num_layers, max(tokens // page_size, 1))
    return PageMap(
        num_tokens=tokens,
        page_size=page_size,
        tier=rng.integers(1, 4, shape).astype(np.uint8),
        age=rng.integers(-1, 1_000_000, shape),
        selected=rng.integers(0, 50, shape),
        worth=rng.random(shape, dtype=np.float32),
        chosen=rng.random(shape) < 0.05,
        key_bits=8,
        value_bits=4,
        tail_bits=16,
        codec="k8v4",
        is_running=True,
    )


def _queued_ms() -> float:
    """How long this thread was ready to run and did not, so far; 0 where the system does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return 0.0


def _spread(name: str, times: list[tuple[float, float]]) -> dict[str, float]:
    """Of all keys, then of the longest alone: of what it took, what the program itself is not to blame for."""
    from octavo.engine.events import percentile

    taken, (longest, queued) = [each for each, _ in times], max(times)
    shares = {f"{name}_{label}_ms": percentile(taken, share) for label, share in _SHARES}
    return shares | {f"{name}_max_ms": longest, f"{name}_max_queued_ms": queued}
