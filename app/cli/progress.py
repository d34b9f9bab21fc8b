"""What long work says on stderr: sentences, and a bar where a person looks at it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from octavo.app.models.fetch import Progress


def announce(text: str) -> None:
    """Say one sentence on stderr."""
    click.echo(text, err=True)


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A bar on stderr where a person looks at it, nothing where the output is redirected."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, leave=False, file=sys.stderr, disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show
