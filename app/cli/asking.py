"""`octavo ask --doc`: an answer from documents, with citations that were checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.embedding import embed, opened_embedder
from octavo.app.cli.explaining import tell_budgets, tell_reading
from octavo.app.cli.progress import announce
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.documents.asking import DocumentAnswer
    from octavo.app.settings import Settings
    from octavo.storage.documents import Documents, StoredDocument


def ask_documents(
    question: str,
    given: Sequence[str],
    settings: Settings,
    *,
    mode: str,
    embedder: str | None,
    show: bool,
    explain: bool,
    is_cancelled: Callable[[], bool],
) -> tuple[DocumentAnswer, dict[str, Any]]:
    """The answer, and it as the document --json prints. Raises AppError, EngineError, StorageError."""
    from octavo.app.cli import opening
    from octavo.app.documents.asking import Asker

    with _opened() as documents:
        among = [_document(documents, item) for item in given]
        chosen = opened_embedder(documents, embedder, offline=settings.offline)
        if documents.is_writable:
            embed(documents, chosen)
        assistant, name = opening.open_assistant(settings)
        with contextlib.closing(assistant):
            if explain:
                tell_budgets(assistant)
            asker = Asker(assistant, documents, settings.generation.policy(), name, embedder=chosen)
            found = asker.ask(question, among, mode=mode, is_cancelled=is_cancelled)  # type: ignore[arg-type]
            if found.answer is not None:
                tell_reading(assistant, found.answer, explain=explain)
    for note in found.notes:
        announce(note)
    if show:
        _show(found)
    if explain:
        _explain(found)
    return found, {"model": name, **found.as_json()}


@contextlib.contextmanager
def _opened() -> Iterator[Documents]:
    """The library for writing, or for reading while another process adds to it."""
    from octavo.app.documents.library import open_documents
    from octavo.storage.database import DatabaseBusyError

    try:
        opened = open_documents(write=True)
        documents = opened.__enter__()
    except DatabaseBusyError:
        opened = open_documents(write=False)
        documents = opened.__enter__()
    try:
        yield documents
    finally:
        opened.__exit__(None, None, None)


def _document(documents: Documents, given: str) -> StoredDocument:
    """A document by name or id, or a file, which is added or brought up to date first."""
    from octavo.app.documents.index import Indexer
    from octavo.app.documents.parse import Reader
    from octavo.app.documents.parsed import Outcome

    path = Path(given)
    if not path.is_file():
        document = documents.resolve(given)
    elif documents.is_writable:
        with Reader() as reader:
            (result,) = Indexer(documents, reader).add([path.absolute()])
        if result.document is None:
            raise AppError(f"{given} could not be read.")
        document = result.document
    else:
        known = documents.by_path(str(path.absolute()))
        if known is None:
            raise AppError(
                f"{given} cannot be added now: another process is adding documents; try again when it is done."
            )
        document = known
    if document.outcome != Outcome.OK:
        raise AppError(
            f"{document.name} cannot be asked about ({document.outcome}). {' '.join(document.facts['notes'])}"
        )
    return document


def _show(found: DocumentAnswer) -> None:
    click.echo(found.text)
    shown: set[tuple[str, int]] = set()
    for citation in found.checked.citations if found.checked is not None and not found.refused else ():
        if (citation.id, citation.start) not in shown:
            shown.add((citation.id, citation.start))
            page = f"page {citation.page}, " if citation.page is not None else ""
            quote = " ".join(citation.quote.split())
            click.echo(f"  [{citation.id}] {page}characters {citation.start}-{citation.end}: “{quote[:160]}”")
    if found.refused:
        if found.verdict.missing:
            click.echo(f"Not found in them: {', '.join(found.verdict.missing[:8])}.")
        for place in found.as_json()["nearest"]:
            page = f", page {place['page']}" if place["page"] is not None else ""
            click.echo(f"  nearest: {place['document']}{page}: “{place['text']}”")


def _explain(found: DocumentAnswer) -> None:
    """The ledger, one line per candidate."""
    announce(f"Mode: {found.mode}. Coverage {found.verdict.coverage:.2f}, score {found.verdict.score:.2f}.")
    announce(f"{'ID':<4} {'DECISION':<9} {'WORDS':>6} {'VECTOR':>7} {'COSINE':>7} {'TOKENS':>7}  PLACE, REASON")
    for row in found.evidence.ledger:
        page = f" p.{row.page}" if row.page is not None else ""
        cosine = f"{row.cosine:.3f}" if row.cosine is not None else "-"
        announce(
            f"{row.id or '-':<4} {row.decision:<9} {row.word_rank or '-':>6} {row.vector_rank or '-':>7} {cosine:>7} "
            f"{row.tokens:>7}  {row.document}{page} {row.start}-{row.end}, {row.reason}"
        )
