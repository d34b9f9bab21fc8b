"""`octavo store`: what is kept of conversations that were read, on the disk."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.storage.pages import Store

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def command() -> None:
    """Look at the page store, check it, tidy it up, and empty it.

    The page store keeps what a model computed from text it has read, so that nothing is read twice. All of it can be
    computed again.
    """


@command.command()
@_JSON
def stat(as_json: bool) -> None:
    """Say what the page store holds, and how much was ever written to it."""
    store = _open(write=False)
    if store is None:
        _say({"bytes_on_disk": 0, "num_pages": 0}, "There is no page store yet.", as_json=as_json)
        return
    with store:
        stats = store.stats()
    from octavo.app.models.text import human_size

    limit = f", limit {human_size(stats.cap)}" if stats.cap else ""
    lines = [
        f"pages      {stats.num_pages:,}, {human_size(stats.bytes_in_pages)}, in {stats.num_segments:,} segments",
        f"on disk    {human_size(stats.bytes_on_disk)}{limit}",
        f"index      {human_size(stats.index_bytes)}",
        f"written    {human_size(stats.bytes_written_lifetime)} in the store's life",
        f"folder     {stats.folder}",
        *stats.problems,
    ]
    _say(asdict(stats), "\n".join(lines), as_json=as_json)


@command.command()
@_JSON
def verify(as_json: bool) -> int:
    """Read every page and check it; exit code 1 if one is not what was written.

    A damaged page is never used: it is computed again. `octavo store gc` removes it.
    """
    store = _open(write=True)
    if store is None:
        _say(
            {"num_pages": 0, "num_bytes": 0, "problems": [], "clean": True},
            "There is no page store yet.",
            as_json=as_json,
        )
        return 0
    with store:
        report = store.verify()
        notes = store.stats().problems
    from octavo.app.models.text import human_size

    count = len(report.problems)
    verdict = "clean." if report.is_clean else f"{count:,} problem{'' if count == 1 else 's'} found."
    lines = [*notes, *report.problems, f"{report.num_pages:,} pages, {human_size(report.num_bytes)}; {verdict}"]
    _say(asdict(report) | {"notes": notes, "clean": report.is_clean}, "\n".join(lines), as_json=as_json)
    return 0 if report.is_clean else 1


@command.command()
@_JSON
def gc(as_json: bool) -> None:
    """Remove damaged pages, move the others together, and give the space back."""
    store = _open(write=True)
    if store is None:
        _say({"damaged": 0, "freed": 0}, "There is no page store yet.", as_json=as_json)
        return
    with store:
        _refuse_reading_only(store)
        damaged = store.drop_damaged()
        freed = store.compact()
    from octavo.app.models.text import human_size

    _say(
        {"damaged": damaged, "freed": freed},
        f"Removed {damaged:,} damaged pages; {human_size(freed)} freed.",
        as_json=as_json,
    )


@command.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
def clear(yes: bool, as_json: bool) -> None:
    """Remove every page. Conversations stay; what they hold is read again when they go on."""
    store = _open(write=True)
    if store is None:
        _say({"freed": 0}, "There is no page store yet.", as_json=as_json)
        return
    from octavo.app.models.text import human_size

    with store:
        _refuse_reading_only(store)
        stats = store.stats()
        if not yes:
            size = human_size(stats.bytes_on_disk)
            click.confirm(f"Remove all {stats.num_pages:,} pages ({size})?", abort=True, err=True)
        freed = store.clear()
    _say({"freed": freed}, f"Removed {stats.num_pages:,} pages; {human_size(freed)} freed.", as_json=as_json)


def _open(*, write: bool) -> Store | None:
    """The user's page store, without a say in its limit; None if there is none."""
    from octavo.storage.pages import PageStoreMissingError, open_store
    from octavo.storage.paths import Paths

    folder = Paths.from_environment().pages_dir
    if not folder.exists():
        return None
    try:
        return open_store(folder, None, write=write)
    except PageStoreMissingError:
        return None


def _refuse_reading_only(store: Store) -> None:
    """Raise AppError with the reason if the store cannot be changed."""
    if not store.writable:
        raise AppError(" ".join(store.stats().problems) or "The page store is open for reading only.")


def _say(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        echo_json(document)
    else:
        click.echo(text)
