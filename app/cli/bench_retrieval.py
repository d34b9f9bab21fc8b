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

from octavo.app.cli.bench_citations import Citing, citing
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.storage.documents import Documents

_AT = 5
_FOLDER = "retrieval"
_QUESTIONS = "questions.tsv"
_CLOSE = "close_questions.tsv"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the bundled set. `answer` is text of its document; empty: the documents do not answer it.

    A close one without an answer is put in the document's own words.
    """

    slice: str
    document: str
    text: str
    answer: str
    is_close: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What a question came to: the rank of the passage with the answer, and what the refusal looked at."""

    question: Question
    rank: int | None
    refused: bool
    coverage: float
    cosine: float
    citing: Citing
    seconds: dict[str, float]


@click.command()
@click.option("--embedder", metavar="NAME", default="default", help="A sentence embedder's folder or hub name, or off.")
@click.option("--half", type=click.Choice(["set", "test", "all"]), default="test", show_default=True)
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def retrieval(embedder: str, half: str, offline: bool | None, as_json: bool) -> None:
    """Retrieval, refusal and citations on the bundled questions.

    Every question is asked of all bundled documents together. What refusal weighs was fitted on the questions with even
    numbers ("set"); the figures are from those with odd numbers ("test"). Close questions, most of which use a
    document's words and are not answered by it, have a row of their own. Sentences are cited without a language model:
    those that hold the answers, word for word and behind the words of their questions ("attributed": the passage with
    the answer is cited and no other), and with another number of the document in them ("marked" as not borne out).
    """
    results = run(embedder, half, offline)
    report = report_of(results)
    click.echo(f"{report['questions']} questions, {report['unanswerable']} of them without an answer ({half} half)")
    heads = ("questions", "recall@5", "MRR", "refusal P", "refusal R", "ids valid", "attributed", "marked")
    click.echo(f"{'slice':<8} " + " ".join(f"{head:>10}" for head in heads))
    for name, row in {"all": report, **report["slices"], "close": report["close"]}.items():
        values = (
            row["recall_at_5"],
            row["mrr"],
            row["refusal_precision"],
            row["refusal_recall"],
            row["citation_valid"],
            row["attributed"],
            row["wrong_number_marked"],
        )
        shown = [f"{value:.3f}" if value is not None else "-" for value in values]
        click.echo(f"{name:<8} {row['questions']:>10} " + " ".join(f"{value:>10}" for value in shown))
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
    found: list[Question] = []
    for name in (_QUESTIONS, _CLOSE):
        questions = []
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            part, document, text, answer = line.split("\t")
            questions.append(Question(part, document, text, answer, is_close=name == _CLOSE))
        found += {"set": questions[::2], "test": questions[1::2], "all": questions}[half]
    return found


def _add_all(documents: Documents, folder: Path) -> None:
    from octavo.app.documents.index import Indexer
    from octavo.app.documents.parse import Reader

    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != ".tsv")
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
    cited = Citing() if verdict.refused else citing(documents, question, found.candidates)
    return Result(question, rank, verdict.refused, verdict.coverage, cosine, cited, found.seconds)


def report_of(results: Sequence[Result]) -> dict[str, Any]:
    """The figures over all results and per slice."""
    every, close = results, [result for result in results if result.question.is_close]
    results = [result for result in results if not result.question.is_close]
    slices = dict.fromkeys(result.question.slice for result in results)
    stages = dict.fromkeys(stage for result in every for stage in result.seconds)
    return _figures(results) | {
        "slices": {name: _figures([r for r in results if r.question.slice == name]) for name in slices},
        "close": _figures(close)
        | {"slices": {name: _figures([r for r in close if r.question.slice == name]) for name in slices}},
        "stage_ms": {
            stage: round(1e3 * statistics.median(r.seconds.get(stage, 0.0) for r in every), 3) for stage in stages
        },
    }


def _figures(results: Sequence[Result]) -> dict[str, Any]:
    answerable = [result for result in results if result.question.answer]
    refused = [result for result in results if result.refused]
    rightly = sum(not result.question.answer for result in refused)
    unanswerable = len(results) - len(answerable)
    return {
        "questions": len(results),
        "unanswerable": unanswerable,
        "recall_at_5": _ratio(sum(r.rank is not None and r.rank <= _AT for r in answerable), len(answerable)),
        "mrr": _ratio(sum(1 / r.rank for r in answerable if r.rank is not None), len(answerable)),
        "refusal_precision": _ratio(rightly, len(refused)),
        "refusal_recall": _ratio(rightly, unanswerable),
        "citation_valid": _share([result.citing.valid for result in results]),
        "attributed": _share([result.citing.attributed for result in results]),
        "wrong_number_marked": _share([result.citing.marked for result in results]),
    }


def _share(counts: Sequence[tuple[int, int]]) -> float | None:
    return _ratio(sum(good for good, _ in counts), sum(number for _, number in counts))


def _ratio(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
