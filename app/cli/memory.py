"""`octavo memory`: what is remembered about you; add, check, correct, undo, forget."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.memory_output import (
    became_of,
    check_document,
    conflict_document,
    line_document,
    memory_document,
    outcome_document,
    print_verdicts,
    texts_of,
)
from octavo.app.cli.output import echo_json
from octavo.app.cli.stored import SHORT_ID
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper
    from octavo.storage.memory_records import Correction, Memory

_ID = "ID is a memory's id, or the beginning of one (4 characters or more)."
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_NLI = click.option(
    "--nli", metavar="FOLDER", help="A folder with a natural-language-inference model; `off` for rules only."
)


@click.group(epilog=_ID)
def command() -> None:
    """See and correct what Octavo remembers about you."""


@command.command(name="list")
@click.argument("words", nargs=-1)
@click.option("--all", "show_all", is_flag=True, help="Also what no longer holds.")
@_JSON
def list_memories(words: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """List what is remembered, the newest first; with WORDS, what they find.

    HOLDS is empty for what always does. WEIGHT is 1 when something was just said and fades to a quarter; what is
    pinned does not.
    """
    from octavo.app.memory.recall import strength, today
    from octavo.app.memory.telling import holding
    from octavo.storage.database import DatabaseMissingError

    day = None if show_all else today().isoformat()
    found: list[Memory] = []
    documents = []
    with contextlib.suppress(DatabaseMissingError), _keeper(write=False, nli="off") as keeper:
        memories = keeper.memories
        found = [m for m, _ in memories.search(" ".join(words), day, 50)] if words else memories.list(day=day)
        documents = [
            memory_document(m)
            | {"decay": strength(m, today()), "evidence": [asdict(e) for e in memories.evidence(m.id)]}
            for m in found
        ]
    if as_json:
        echo_json(documents)
        return
    if not found:
        click.echo("Nothing is remembered that these words find." if words else "Nothing is remembered yet.")
        return
    width = max(len("HOLDS"), *(len(holding(memory)) for memory in found))
    click.echo(f"{'ID':<{SHORT_ID}}  {'SAID':<10}  {'HOLDS':<{width}}  WEIGHT  MEMORY")
    for memory, document in zip(found, documents, strict=True):
        fades = "pinned" if memory.pinned else f"{document['decay']:>6.2f}"
        click.echo(f"{memory.id[:SHORT_ID]}  {memory.said[:10]}  {holding(memory):<{width}}  {fades}  {memory.text}")


@command.command(name="add")
@click.argument("text")
@_NLI
@_JSON
def add_memory(text: str, nli: str | None, as_json: bool) -> None:
    """Remember TEXT, after checking it against what is remembered."""
    with _keeper(write=True, nli=nli, by_meaning=True) as keeper:
        outcomes = keeper.add(text)
        found_by = _found_by(keeper)
    documents = [outcome_document(outcome) | {"found_by": found_by} for outcome in outcomes]
    print_verdicts([outcome.check for outcome in outcomes], documents, as_json=as_json)
    if not as_json:
        click.echo(became_of(outcomes))


@command.command()
@click.argument("text")
@_NLI
@_JSON
def check(text: str, nli: str | None, as_json: bool) -> None:
    """Say how TEXT goes with what is remembered, without remembering it."""
    from octavo.storage.database import DatabaseMissingError

    try:
        with _keeper(write=False, nli=nli, by_meaning=True) as keeper:
            checks, found_by = keeper.check(text), _found_by(keeper)
    except DatabaseMissingError:
        with _keeper(write=True, nli=nli) as keeper:
            checks, found_by = keeper.check(text), _found_by(keeper)
    print_verdicts(checks, [check_document(found) | {"found_by": found_by} for found in checks], as_json=as_json)


@command.command(epilog=_ID)
@click.argument("given", nargs=-1, required=True, metavar="ID...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
def forget(given: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete memories for good; what they said is not picked up again."""
    with _keeper(write=True, nli="off") as keeper:
        found = {memory.id: memory for memory in (keeper.memories.resolve(item) for item in given)}
        for memory in found.values():
            if not yes:
                click.confirm(f"Forget “{memory.text}”?", abort=True, err=True)
            keeper.forget(memory.id)
            if not as_json:
                click.echo(f"Forgot “{memory.text}”.")
    if as_json:
        echo_json({"forgotten": list(found)})


@command.command()
@click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="Show at most this many lines.")
@_JSON
def log(limit: int, as_json: bool) -> None:
    """Show what replaced what, when, why, and on which evidence, the newest first."""
    from octavo.storage.database import DatabaseMissingError

    lines: list[Correction] = []
    texts: dict[str, str] = {}
    with contextlib.suppress(DatabaseMissingError), _keeper(write=False, nli="off") as keeper:
        lines = keeper.log.list(limit)
        texts = texts_of(keeper, lines)
    if as_json:
        echo_json([line_document(line, texts) for line in lines])
        return
    if not lines:
        click.echo("Nothing has been remembered or corrected yet.")
    for line in lines:
        undone = " (undone)" if line.undone else ""
        click.echo(f"{line.seq:>5}  {line.at[:16].replace('T', ' ')}  {line.kind:<13}  {line.reason}{undone}")
        said, before = line.evidence or texts.get(line.new_id or ""), texts.get(line.old_id or "")
        if said or before:
            click.echo("       " + " → ".join(f"“{text}”" for text in (before, said) if text))


@command.command()
@click.argument("line", type=int, required=False)
@_JSON
def undo(line: int | None, as_json: bool) -> None:
    """Undo the newest line of the log, or LINE."""
    with _keeper(write=True, nli="off") as keeper:
        undone = keeper.undo(line)
    if as_json:
        echo_json(line_document(undone))
    else:
        click.echo(f"Undid line {undone.seq} ({undone.kind}): {undone.reason}")


@command.command()
@click.option("--all", "show_all", is_flag=True, help="Also those that were decided.")
@_JSON
def conflicts(show_all: bool, as_json: bool) -> None:
    """List the conflicts that wait for your decision."""
    from octavo.storage.database import DatabaseMissingError

    documents: list[dict[str, Any]] = []
    with contextlib.suppress(DatabaseMissingError), _keeper(write=False, nli="off") as keeper:
        documents = [conflict_document(keeper, found) for found in keeper.memories.conflicts(only_open=not show_all)]
    if as_json:
        echo_json(documents)
        return
    if not documents:
        click.echo("No conflict waits for a decision.")
    for document in documents:
        click.echo(f"{document['id']}  {document['verdict']}, {document['state']}: {document['reason']}")
        click.echo(f"    old  {document['old']['text']}\n    new  {document['new']['text']}")


@command.command()
@click.argument("conflict", metavar="CONFLICT")
@click.argument("keep", type=click.Choice(["old", "new", "both"]))
@_JSON
def resolve(conflict: str, keep: str, as_json: bool) -> None:
    """Decide a conflict: keep the old memory, the new one, or both."""
    from octavo.app.memory.deciding import decide

    with _keeper(write=True, nli="off") as keeper:
        line = decide(keeper, conflict, keep)
    if as_json:
        echo_json(line_document(line))
    else:
        click.echo(line.reason)


@command.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--json", "as_json", is_flag=True, hidden=True, help="The export is JSON anyway.")
def export(output: Path | None, as_json: bool) -> None:
    """Write every memory, its evidence and its conflicts as JSON."""
    from octavo.app.memory.transfer import exported

    with _keeper(write=False, nli="off") as keeper:
        document = exported(keeper.memories)
    if output is None:
        echo_json(document)
        return
    try:
        output.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise AppError(f"{output} could not be written: {error.strerror or error}.") from error
    click.echo(f"Wrote {len(document['memories'])} memories to {output}.", err=True)


@command.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_JSON
def import_memories(file: Path, as_json: bool) -> None:
    """Add the memories of an export; nothing that is there is replaced."""
    from octavo.app.memory.transfer import read_export, take_in

    document = read_export(file)
    with _keeper(write=True, nli="off") as keeper:
        result = take_in(keeper, document)
    if as_json:
        echo_json(asdict(result))
    else:
        click.echo(
            f"Added {result.added} memories; {result.known} were known, {result.forgotten} had been forgotten "
            "and stay so."
        )


@command.command(name="fetch-nli")
@click.argument("repo", required=False)
def fetch_nli_model(repo: str | None) -> None:
    """Fetch an NLI model from the hub (REPO, by default cross-encoder/nli-deberta-v3-small), and use it."""
    from octavo.app.cli.progress import announce, progress_bar
    from octavo.app.memory.fetching import REFERENCE, fetch_nli
    from octavo.storage.database import open_database
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    with open_database(paths.database_file) as database, progress_bar() as progress:
        folder = fetch_nli(repo or REFERENCE, paths, database, announce=announce, progress=progress)
    click.echo(f"Statements are now read by {repo or REFERENCE}, too ({folder}); remove the folder to stop that.")


def _found_by(keeper: Keeper) -> str:
    """How the memories were found that a statement was compared with."""
    from octavo.app.memory.meaning import Meaning

    return keeper.nearest.found_by if isinstance(keeper.nearest, Meaning) else "full text"


@contextlib.contextmanager
def _keeper(*, write: bool, nli: str | None, by_meaning: bool = False) -> Iterator[Keeper]:
    """The memory of this user, with the NLI model where there is one and it is wanted, and with `by_meaning` the
    sentence embedder where it is installed."""
    from octavo.app.memory.keeper import Keeper
    from octavo.app.memory.meaning import Meaning
    from octavo.app.memory.models import find_judge
    from octavo.storage.database import open_database
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    with open_database(paths.database_file, write=write) as database:
        nearest = Meaning(database, paths) if by_meaning else None
        yield Keeper(database, judge=find_judge(nli, paths, database), nearest=nearest)
