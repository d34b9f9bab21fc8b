"""`octavo bench retrieval`: how well questions find their passages, and how well the unanswerable are refused."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.app.documents.retrieve import Candidate
    from octavo.storage.documents import Documents

_AT = 5
_FOLDER = "retrieval"
_QUESTIONS = "questions.tsv"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the bundled set. `answer` is text of its document; empty: the documents do not answer it."""

    slice: str
    document: str
    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a question came to: the rank of the passage with the answer, and what the refusal looked at."""

    question: Question
    rank: int | None
    refused: bool
    coverage: float
    cosine: float
    cited: tuple[int, int]  # citations with a right id and span, and all
    seconds: dict[str, float]


@click.command()
@click.option("--embedder", metavar="NAME", default="default", help="A sentence embedder's folder or hub name, or off.")
@click.option("--half", type=click.Choice(["set", "test", "all"]), default="test", show_default=True)
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def retrieval(embedder: str, half: str, offline: bool | None, as_json: bool) -> None:
    """Retrieval, refusal and citations on the bundled questions.

    Every question is asked of all bundled documents together. What refusal weighs was fitted on the questions with even
    numbers ("set"); the figures are from those with odd numbers ("test"). An answer is cited by quoting the
    sentence that holds it, without a language model, so the citations measured are those of the code.
    """
    results = run(embedder, half, offline)
    report = report_of(results)
    click.echo(f"{report['questions']} questions, {report['unanswerable']} of them without an answer ({half} half)")
    heads = ("questions", "recall@5", "MRR", "refusal P", "refusal R", "citations")
    click.echo(f"{'slice':<8} " + " ".join(f"{head:>9}" for head in heads))
    for name, row in {"all": report, **report["slices"]}.items():
        values = (
            row["recall_at_5"],
            row["mrr"],
            row["refusal_precision"],
            row["refusal_recall"],
            row["citation_valid"],
        )
        shown = [f"{value:.3f}" if value is not None else "-" for value in values]
        click.echo(f"{name:<8} {row['questions']:>9} " + " ".join(f"{value:>9}" for value in shown))
    click.echo("median ms: " + ", ".join(f"{name} {value:.1f}" for name, value in report["stage_ms"].items()))
    if as_json:
        click.echo(json.dumps(report | {"half": half, "embedder": embedder}))


def run(embedder: str, half: str, offline: bool | None) -> list[Result]:
    """Ask every question of the half. Raises AppError if the embedder cannot be had."""
    from octavo.app.cli.embedding import is_offline
    from octavo.app.cli.progress import announce
    from octavo.app.documents.embedder import OFF, ensure_embedder
    from octavo.app.documents.embedding import embed_missing
    from octavo.storage.documents import Documents
    from octavo.storage.library import open_library
    from octavo.storage.paths import Paths

    encoder = ensure_embedder(embedder, Paths.from_environment(), offline=is_offline(offline), announce=announce)
    if encoder is None and embedder != OFF:
        raise AppError(f"The embedder {embedder} is not on this machine.")
    source = resources.files("octavo.assets").joinpath(_FOLDER)
    with (
        tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder,
        resources.as_file(source) as bundled,
        closing(open_library(Path(folder) / "documents.db")) as database,
    ):
        documents = Documents(database)
        _add_all(documents, bundled)
        if encoder is not None:
            embed_missing(documents, encoder)
        return [_ask(documents, question, encoder) for question in _questions(bundled, half)]


def _questions(folder: Path, half: str) -> list[Question]:
    rows = [line.split("\t") for line in (folder / _QUESTIONS).read_text(encoding="utf-8").splitlines()]
    questions = [Question(*row) for row in rows]
    return {"set": questions[::2], "test": questions[1::2], "all": questions}[half]


def _add_all(documents: Documents, folder: Path) -> None:
    from octavo.app.documents.index import Indexer
    from octavo.app.documents.parse import Reader

    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != _QUESTIONS)
    with Reader() as reader:
        for result in Indexer(documents, reader).add(paths):
            assert result.status == "added", f"{result.path} is bundled and can be read"


def _ask(documents: Documents, question: Question, embedder: Embedder | None) -> Result:
    from octavo.app.documents.refusal import judge
    from octavo.app.documents.retrieve import retrieve

    found = retrieve(documents, question.text, documents.list(), embedder=embedder)
    started = time.perf_counter()
    verdict = judge(found, question.text, embedder)
    found.seconds["judge"] = time.perf_counter() - started
    rank = None
    if question.answer:
        (document,) = (one for one in documents.list() if one.name == question.document)
        start = documents.text(document).index(question.answer)
        end = start + len(question.answer)
        for place, candidate in enumerate(found.candidates, start=1):
            chunk = candidate.chunk
            if chunk.document_seq == document.seq and chunk.start < end and chunk.stop > start:
                rank = place
                break
    cosine = max((candidate.cosine or 0.0 for candidate in found.candidates), default=0.0)
    cited = (0, 0) if verdict.refused else _cited(documents, question, found.candidates)
    return Result(question, rank, verdict.refused, verdict.coverage, cosine, cited, found.seconds)


def _cited(documents: Documents, question: Question, candidates: Sequence[Candidate]) -> tuple[int, int]:
    """Citations of the evidence's best sentence that name a source there is, and whose quote stands at its place."""
    from octavo.app.documents.citations import check
    from octavo.app.documents.evidence import gather
    from octavo.app.documents.question import covered, terms_of
    from octavo.app.documents.sentences import sentences

    evidence = gather(question.text, candidates, 1200, lambda text: len(text) // 4 + 1)
    texts = {document.id: documents.text(document) for document in documents.list()}
    terms, said = terms_of(question.text), []
    for source in evidence.sources[:2]:
        spans = sentences(source.text)
        best = max(spans, key=lambda span: len(covered(terms, [source.text[slice(*span)]])), default=(0, 0))
        said.append(f"{source.text[slice(*best)]} [{source.id}]")
    citations = check(" ".join(said), evidence.sources).citations
    known = {source.id for source in evidence.sources}
    right = [c for c in citations if c.id in known and texts[c.document][c.start : c.end] == c.quote]
    return len(right), len(citations)


def report_of(results: Sequence[Result]) -> dict[str, Any]:
    """The figures over all results and per slice."""
    slices = dict.fromkeys(result.question.slice for result in results)
    stages = dict.fromkeys(stage for result in results for stage in result.seconds)
    return _figures(results) | {
        "slices": {name: _figures([r for r in results if r.question.slice == name]) for name in slices},
        "stage_ms": {
            stage: round(1e3 * statistics.median(r.seconds.get(stage, 0.0) for r in results), 3) for stage in stages
        },
    }


def _figures(results: Sequence[Result]) -> dict[str, Any]:
    answerable = [result for result in results if result.question.answer]
    refused = [result for result in results if result.refused]
    rightly = sum(not result.question.answer for result in refused)
    unanswerable = len(results) - len(answerable)
    right, cited = (sum(result.cited[part] for result in results) for part in (0, 1))
    return {
        "questions": len(results),
        "unanswerable": unanswerable,
        "recall_at_5": _ratio(sum(r.rank is not None and r.rank <= _AT for r in answerable), len(answerable)),
        "mrr": _ratio(sum(1 / r.rank for r in answerable if r.rank is not None), len(answerable)),
        "refusal_precision": _ratio(rightly, len(refused)),
        "refusal_recall": _ratio(rightly, unanswerable),
        "citation_valid": _ratio(right, cited),
    }


def _ratio(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
