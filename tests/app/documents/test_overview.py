"""Requests about a document as a whole: told apart from questions, and answered from passages all over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.app.documents.index import Indexer
from octavo.app.documents.lookup import Searcher
from octavo.app.documents.overview import is_overview, spread
from octavo.app.documents.parse import Reader
from octavo.storage.documents import Documents
from octavo.storage.library import open_library

NAMES = ["lease agreement.md"]


@pytest.mark.parametrize(
    "request_",
    [
        "Summarise this document.",
        "Please summarize the lease agreement in three sentences",
        "What is this document about?",
        "What's it about?",
        "What are the main points?",
        "Give me a short overview of the text.",
        "tl;dr",
        "What does the contract say?",
        "Fasse das Dokument kurz zusammen.",
        "Worum geht es in dem Vertrag?",
        "Was sind die wichtigsten Punkte?",
        "总结一下这份合同",
        "这份文件讲了什么？",
    ],
)
def test_requests_about_the_whole(request_: str) -> None:
    assert is_overview(request_, NAMES)


@pytest.mark.parametrize(
    "question",
    [
        "How high is the deposit?",
        "How long is the contract?",
        "Who is the contract with?",
        "What does the contract say about dogs?",
        "What is the deposit about?",
        "Summarise the rules for dogs.",
        "Who wrote the summary?",
        "Is this about walnuts?",
        "Wie lange läuft der Vertrag?",
        "Worum geht es bei der Kaution?",
        "合同的押金是多少？",
        "总结一下押金的规定",
        "?",
        "",
    ],
)
def test_questions_are_none(question: str) -> None:
    assert not is_overview(question, NAMES)


@pytest.fixture
def documents(tmp_path: Path, reader: Reader) -> Iterator[Documents]:
    for name in ("a", "b", "c"):
        sections = (f"# Part {n}\n\nPart {n} of {name} is about the number {n}.\n" for n in range(30))
        (tmp_path / f"{name}.md").write_text("\n".join(sections))
    with open_library(tmp_path / "documents.db") as database:
        documents = Documents(database)
        list(Indexer(documents, reader).add(sorted(tmp_path.glob("*.md"))))
        yield documents


def words(text: str) -> int:
    return len(text.split())


def test_passages_are_from_beginning_to_end_and_fit(documents: Documents) -> None:
    (one, *_) = documents.list()
    evidence = spread(documents, [one], 300, words)
    starts = [source.start for source in evidence.sources]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert starts[-1] > one.num_characters / 2
    assert 0 < sum(row.tokens for row in evidence.ledger) <= 300
    assert [source.id for source in evidence.sources] == [f"C{n}" for n in range(1, len(starts) + 1)]


def test_every_document_has_its_part(documents: Documents) -> None:
    evidence = spread(documents, documents.list(), 10_000, words)
    assert {source.document.name for source in evidence.sources} == {"a.md", "b.md", "c.md"}
    assert {source.document.name for source in spread(documents, documents.list(), 100, words).sources} == {"a.md"}
    assert spread(documents, documents.list(), 3, words).sources == ()


def test_an_overview_is_not_refused_and_a_question_is_looked_up(documents: Documents) -> None:
    searcher = Searcher(documents)
    overview = searcher.look_up("What are these documents about?", documents.list(), [], 1_000, words)
    assert overview.is_overview
    assert not overview.verdict.refused
    assert searcher.look_up("What is the colour of the sky?", documents.list(), [], 1_000, words).verdict.refused
    # Where not even one passage fits, nothing can be said.
    assert searcher.look_up("What are these documents about?", documents.list(), [], 1, words).verdict.refused
