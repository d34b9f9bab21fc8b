"""`octavo docs`: add, list, show, remove and read again the documents that can be asked about."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.cli.progress import announce

if TYPE_CHECKING:
    from octavo.app.documents.index import Added
    from octavo.storage.documents import Documents, StoredDocument

_SHORT_ID = 12
_DOC = "DOC is a document's name, path, id, or the beginning of its id (4 characters or more)."
_EMBEDDER = "A folder or hub name of a sentence embedder, `default`, or `off` for keywords alone; it is remembered."


@click.group(epilog=_DOC)
def command() -> None:
    """Add, list, show and remove documents."""


@command.command()
@click.argument("given", nargs=-1, metavar="[FILE|FOLDER|-]...")
@click.option("--password", help="The password of a protected PDF.")
@click.option("--encoding", metavar="NAME", help="The encoding of text files, where it is guessed wrong.")
@click.option("--name", metavar="NAME", default="stdin.txt", help="What to call what comes from standard input.")
@click.option("--embedder", metavar="NAME", help=_EMBEDDER)
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def add(
    given: tuple[str, ...],
    password: str | None,
    encoding: str | None,
    name: str,
    embedder: str | None,
    offline: bool | None,
    as_json: bool,
) -> int:
    """Add files, whole folders, or standard input (-); a known file is recognised, a changed one is a new version.

    Ctrl+C stops; `octavo docs add` alone goes on where it was stopped.
    """
    from octavo.app.documents.library import open_documents

    with open_documents(write=True) as documents:
        results = _add(documents, given, password, encoding, name, show=not as_json)
        _embed(documents, embedder, offline)
        if as_json:
            echo_json([_added_json(result) for result in results])
    return 1 if any(result.status == "refused" for result in results) else 0


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_documents(as_json: bool) -> None:
    """List the documents, and say which files are gone."""
    from octavo.app.documents.library import open_documents
    from octavo.storage.database import DatabaseMissingError

    try:
        with open_documents(write=False) as documents:
            found = documents.list()
    except DatabaseMissingError:
        found = []
    if as_json:
        echo_json([_document_json(document) for document in found])
        return
    if not found:
        click.echo("There are no documents yet; `octavo docs add FILE` adds one.")
        return
    click.echo(f"{'ID':<{_SHORT_ID}}  {'KIND':<8}  {'OUTCOME':<11}  {'PAGES':>6}  {'CHARACTERS':>11}  NAME")
    for document in found:
        pages = str(len(document.pages)) if document.pages else "-"
        gone = "  (its file is gone)" if not _is_there(document) else ""
        click.echo(
            f"{document.id[:_SHORT_ID]}  {document.facts['kind']:<8}  {document.outcome:<11}  {pages:>6}  "
            f"{document.num_characters:>11,}  {document.name}{gone}"
        )


@command.command(epilog=_DOC)
@click.argument("given", metavar="DOC")
@click.option("--text", "what", flag_value="text", help="Print the text.")
@click.option("--chunks", "what", flag_value="chunks", help="Print the chunks with their places.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(given: str, what: str | None, as_json: bool) -> None:
    """Print what is known of a document: how it was read, what was left out, its versions."""
    from octavo.app.documents.library import open_documents

    with open_documents(write=False) as documents:
        document = _resolve(documents, given)
        if what == "text":
            click.echo(documents.text(document))
        elif what == "chunks":
            chunks = [asdict(chunk) for chunk in documents.chunks_of(document)]
            if as_json:
                echo_json(chunks)
            for chunk in () if as_json else chunks:
                page = f", page {chunk['page']}" if chunk["page"] is not None else ""
                click.echo(f"[{chunk['start']}-{chunk['stop']}{page}] {' › '.join(chunk['headings'])}")
                click.echo(chunk["text"].strip() + "\n")
        elif as_json:
            versions = [
                dict(zip(("version", "added", "sha256"), row, strict=True)) for row in documents.versions(document.seq)
            ]
            echo_json(_document_json(document) | {"versions": versions})
        else:
            _describe(document, documents.versions(document.seq))


@command.command(epilog=_DOC)
@click.argument("given", nargs=-1, required=True, metavar="DOC...")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(given: tuple[str, ...], yes: bool) -> None:
    """Remove documents and everything that was made of them, KV pages too; the files themselves stay."""
    from octavo.app.cli.stored import open_conversations
    from octavo.app.documents.library import open_documents
    from octavo.app.documents.removing import remove_document
    from octavo.storage.attachments import Attachments
    from octavo.storage.database import DatabaseMissingError
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    with open_documents(write=True) as documents:
        for document in {found.seq: found for found in (_resolve(documents, item) for item in given)}.values():
            if not yes:
                click.confirm(f"Remove {document.name}?", abort=True, err=True)
            try:
                with open_conversations(write=False) as conversations:
                    holders = Attachments(conversations.database).holders(document.path)
            except DatabaseMissingError:
                holders = []
            forgotten = remove_document(documents, document, holders, paths)
            freed = f" {forgotten.freed()} are free again." if forgotten.freed() else ""
            click.echo(f"Removed {document.name}.{freed}")
            if forgotten.problem:
                announce(forgotten.problem)


@command.command(epilog=_DOC)
@click.argument("given", nargs=-1, metavar="[DOC]...")
@click.option("--embedder", metavar="NAME", help=_EMBEDDER)
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
def reindex(given: tuple[str, ...], embedder: str | None, offline: bool | None) -> None:
    """Read documents again, all of them by default, and mark those whose files are gone."""
    from octavo.app.documents.index import Indexer
    from octavo.app.documents.library import open_documents
    from octavo.app.documents.parse import Reader

    with open_documents(write=True) as documents, Reader() as reader:
        indexer = Indexer(documents, reader)
        chosen = [_resolve(documents, item) for item in given] or documents.list()
        for document in indexer.mark_missing():
            announce(f"{document.path} is gone; what was read of it stays until `octavo docs remove`.")
        paths = [Path(document.path) for document in chosen if Path(document.path).is_file()]
        for result in indexer.add(paths, again=True):
            _tell(result)
        _embed(documents, embedder, offline)


def _add(
    documents: Documents, given: tuple[str, ...], password: str | None, encoding: str | None, name: str, *, show: bool
) -> list[Added]:
    from octavo.app.cli.progress import count_bar
    from octavo.app.cli.unlocking import unlocked
    from octavo.app.documents.index import Indexer, find_files
    from octavo.app.documents.parse import Reader
    from octavo.app.documents.parsed import Outcome

    results: list[Added] = []
    locked: list[Added] = []
    with Reader() as reader:
        indexer = Indexer(documents, reader)
        if "-" in given:
            results.append(indexer.add_stdin(sys.stdin.buffer.read(), name, encoding))
        found = find_files([Path(item) for item in given if item != "-"])
        paths = found.paths if given else indexer.resume()
        if not given and not paths:
            raise click.UsageError("There is nothing to add; name a file or a folder.")
        if found.num_skipped:
            announce(f"{found.num_skipped:,} files of other kinds were passed over.")
        for result in results:
            _tell(result, to_stdout=show)
        with count_bar("files") as progress:
            for result in indexer.add(paths, password=password, encoding=encoding, progress=progress):
                if result.outcome == Outcome.ENCRYPTED:
                    locked.append(result)  # nobody is asked in the middle of a folder
                    continue
                results.append(result)
                _tell(result, to_stdout=show)
        for result in locked:
            results.append(unlocked(indexer, result))
            _tell(results[-1], to_stdout=show)
    return results


def _embed(documents: Documents, given: str | None, offline: bool | None) -> None:
    """Vectors for chunks that have none yet; without an embedder, keyword retrieval works and says so."""
    from octavo.app.cli.embedding import embed, opened_embedder
    from octavo.app.settings import load_settings

    settings = load_settings({"offline": offline})
    if any(document.num_chunks for document in documents.list()):
        embed(documents, opened_embedder(documents, given, offline=settings.offline, configured=settings.embedder))
    elif given is not None:
        from octavo.app.documents.embedder import CHOICE

        documents.choose(CHOICE, given)


def _tell(result: Added, *, to_stdout: bool = True) -> None:
    document = result.document
    name = document.name if document is not None else result.path
    lines = {
        "added": f"Added {name}",
        "updated": f"Updated {name}",
        "unchanged": f"{name} is there already",
        "moved": f"{name} has moved to {result.path}",
        "same": f"{result.path} is the same file as {document.path if document is not None else name}",
        "refused": f"{name} cannot be asked about",
    }
    text = lines[result.status]
    if document is None:
        text += ": it is gone"
    elif result.status in ("added", "updated"):
        pages = f", {len(document.pages):,} pages" if document.pages else ""
        text += f" ({document.facts['kind']}{pages}, {document.num_characters:,} characters)"
    notes = document.facts["notes"] if document is not None and result.status in ("added", "updated", "refused") else []
    if document is not None and result.status == "refused":
        text += f" ({document.outcome})"
    click.echo(". ".join([text, *(note.rstrip(".") for note in notes)]) + ".", err=not to_stdout)


def _describe(document: StoredDocument, versions: list[tuple[int, str, str]]) -> None:
    facts = document.facts
    rows = {
        "name": document.name,
        "id": document.id,
        "path": document.path + ("" if _is_there(document) else "  (gone)"),
        "kind": facts["kind"] + (f", {facts['encoding']}" if facts["encoding"] else ""),
        "title": facts["title"] or "-",
        "outcome": document.outcome,
        "size": f"{document.size:,} bytes, {document.num_characters:,} characters, {document.num_chunks:,} chunks",
        "pages": f"{len(document.pages):,}" if document.pages else "-",
        "versions": ", ".join(f"{number} ({added[:10]}, {digest[:12]})" for number, added, digest in versions),
    }
    for key, value in rows.items():
        click.echo(f"{key:<9} {value}")
    for note in facts["notes"]:
        click.echo(f"note      {note}")
    for line in facts["injections"]:
        click.echo(f"flagged   it speaks to a model: “{line}”")


def _resolve(documents: Documents, given: str) -> StoredDocument:
    path = Path(given)
    found = documents.by_path(str(path.absolute())) if path.exists() else None
    return found or documents.resolve(given)


def _is_there(document: StoredDocument) -> bool:
    return document.path.startswith("-:") or Path(document.path).is_file()


def _document_json(document: StoredDocument) -> dict[str, Any]:
    values = asdict(document)
    for key in ("seq", "first_chunk", "solid", "pages", "mtime_ns"):
        del values[key]
    return values | {"num_pages": len(document.pages), "state": "present" if _is_there(document) else "missing"}


def _added_json(result: Added) -> dict[str, Any]:
    document = _document_json(result.document) if result.document is not None else None
    return {"path": result.path, "status": result.status, "document": document}
