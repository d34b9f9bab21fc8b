"""Asking for the password of a protected document, where a person is there to give it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from octavo.app.documents.index import Added, Indexer

_TRIES = 3


def unlocked(indexer: Indexer, result: Added) -> Added:
    """The file added with a password that is asked for, or `result` as it is where it needs none, nobody is there,
    or nothing is given."""
    from pathlib import Path

    from octavo.app.documents.parsed import Outcome

    tries = _TRIES if sys.stdin is not None and sys.stdin.isatty() else 0
    while result.outcome == Outcome.ENCRYPTED and tries:
        name = Path(result.path).name
        password = click.prompt(f"Password of {name}", hide_input=True, default="", show_default=False, err=True)
        if not password:
            break
        (result,) = indexer.add([Path(result.path)], password=password)
        tries -= 1
    return result
