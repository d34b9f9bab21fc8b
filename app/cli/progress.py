"""What long work says on stderr: sentences, and a bar where a person looks at it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tqdm import tqdm

    from octavo.app.models.fetch import Progress

_bars: list[tqdm[Any]] = []  # the bar on the screen, if any


def announce(text: str) -> None:
    """Say one sentence on stderr, on a line of its own."""
    for bar in _bars:
        bar.clear()
    click.echo(text, err=True)


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A bar on stderr where a person looks at it, nothing where the output is redirected."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    def show(done: int, total: int) -> None:
        # Made at the first bytes: before that there is nothing to show but sentences, and a resumed
        # download would count what was there into its speed.
        if not _bars:
            bar = tqdm(total=total, initial=done, unit="B", unit_scale=True, leave=False, file=sys.stderr)
            _bars.append(bar)
        _bars[0].total = total
        _bars[0].update(done - _bars[0].n)

    try:
        yield show
    finally:
        while _bars:
            _bars.pop().close()


@contextlib.contextmanager
def count_bar(unit: str) -> Iterator[Progress]:
    """As `progress_bar`, for things that are counted; it always gives a function to call."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from tqdm import tqdm

    with tqdm(total=0, unit=f" {unit}", leave=False, file=sys.stderr) as bar:
        _bars.append(bar)

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        try:
            yield show
        finally:
            _bars.remove(bar)
