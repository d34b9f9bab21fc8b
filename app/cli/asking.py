"""`octavo ask --doc`: an answer from documents, with citations that were checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.embedding import embed, opened_embedder
from octavo.app.cli.explaining import tell_budgets, tell_reading
from octavo.app.cli.progress import announce, count_bar
from octavo.app.cli.unlocking import unlocked
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.documents.answer import DocumentAnswer
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
    explaining: bool,
    is_cancelled: Callable[[], bool],
) -> tuple[DocumentAnswer, dict[str, Any]]:
    """The answer, and it as the document --json prints. Raises AppError, EngineError, StorageError."""
    from octavo.app.cli import opening
    from octavo.app.documents.asking import SEVERAL, Asker, Question
    from octavo.app.documents.entailment import open_entailment
    from octavo.app.documents.reranker import open_reranker

    with opened_library() as documents:
        among = [document_of(documents, item) for item in given]
        reranker = open_reranker(settings.reranker) if settings.reranker else None
        entailment = open_entailment(settings.nli) if settings.nli else None
        chosen = opened_embedder(documents, embedder, offline=settings.offline, configured=settings.embedder)
        if documents.is_writable:
            embed(documents, chosen)
        assistant, name = opening.open_assistant(settings)
        with contextlib.closing(assistant):
            if explaining:
                tell_budgets(assistant)
            policy = settings.generation.policy()
            asker = Asker(assistant, documents, policy, embedder=chosen, reranker=reranker, entailment=entailment)
            asked = Question(question, among, mode, system=settings.system)  # type: ignore[arg-type]
            with count_bar("tokens read") as show_reading:
                found = asker.ask(asked, _watched(assistant, show_reading, is_cancelled))
            if len(among) > 1:  # pages with text of several documents would outlive one that is removed
                assistant.engine.forget(SEVERAL)
            if found.answer is not None:
                tell_reading(assistant, found.answer, explain=explaining)
    for note in found.notes:
        announce(note)
    record = found.record()
    for line in answer_lines(found.text, record) if show else ():
        click.echo(line)
    if explaining:
        explain(record)
    return found, {"model": name, **found.as_json()}


def _watched(
    assistant: Assistant, show: Callable[[int, int], None], is_cancelled: Callable[[], bool]
) -> Callable[[], bool]:
    """As `is_cancelled`, which is asked once a step: a document read whole may take minutes until its first word."""

    def step() -> bool:
        for sequence in assistant.engine.sequences[:1]:
            show(min(sequence.num_computed, sequence.num_prompt), sequence.num_prompt)
        return is_cancelled()

    return step


@contextlib.contextmanager
def opened_library() -> Iterator[Documents]:
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


def document_of(documents: Documents, given: str) -> StoredDocument:
    """A document by name or id, or a file, which is added or brought up to date first."""
    from octavo.app.documents.index import Indexer
    from octavo.app.documents.parse import Reader
    from octavo.app.documents.parsed import Outcome

    path = Path(given)
    if not path.is_file():
        document = documents.resolve(given)
    elif documents.is_writable:
        with Reader() as reader:
            indexer = Indexer(documents, reader)
            (result,) = indexer.add([path.absolute()])
            result = unlocked(indexer, result)
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


def answer_lines(text: str, record: Mapping[str, Any]) -> Iterator[str]:
    """An answer and its record as lines of text: with the places it cites, or with what came nearest."""
    yield text
    from octavo.app.documents.answer import cited_names, reasons

    shown: set[tuple[str, int]] = set()
    names = cited_names(record)
    for citation in record["citations"] if not record["refused"] else ():
        if (citation["id"], citation["start"]) not in shown:
            shown.add((citation["id"], citation["start"]))
            page = f"page {citation['page']}, " if citation["page"] is not None else ""
            if len(names) > 1:
                page = f"{names[citation['document']]}, {page}"
            quote = " ".join(citation["quote"].split())
            place = f"characters {citation['start']}-{citation['end']}"
            place += ", one of several that say so" if citation.get("tied") else ""
            yield f"  [{citation['id']}] {page}{place}: “{quote[:160]}”"
    if record["refused"]:
        yield from reasons(record)
        for place in record["nearest"]:
            page = f", page {place['page']}" if place["page"] is not None else ""
            yield f"  nearest: {place['document']}{page}: “{place['text']}”"


def explain(record: Mapping[str, Any]) -> None:
    """The ledger, one line per candidate, and what a document's reading selected."""
    announce(f"Mode: {record['mode']}. Coverage {record['coverage']:.2f}.")
    announce(f"{'ID':<4} {'DECISION':<9} {'WORDS':>6} {'VECTOR':>7} {'COSINE':>7} {'TOKENS':>7}  PLACE, REASON")
    for row in record["ledger"]:
        page = f" p.{row['page']}" if row["page"] is not None else ""
        cosine = f"{row['cosine']:.3f}" if row["cosine"] is not None else "-"
        announce(
            f"{row['id'] or '-':<4} {row['decision']:<9} {row['word_rank'] or '-':>6} {row['vector_rank'] or '-':>7} "
            f"{cosine:>7} {row['tokens']:>7}  {row['document']}{page} {row['start']}-{row['end']}, {row['reason']}"
        )
    for part in record["pages_read"] or ():
        page = f"page {part['page']}, " if part["page"] is not None else ""
        cited = f", cited as {', '.join(part['cited'])}" if part["cited"] else ""
        announce(
            f"Pages read: {page}{part['start']}-{part['end']} ({part['times']} times{cited}): “{part['text'][:80]}”"
        )
