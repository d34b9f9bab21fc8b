"""Retrieval, the ledger, and the budget; without an embedder, and with one that counts letters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.app.documents.embedder import Embedder
from octavo.app.documents.embedding import embed_missing
from octavo.app.documents.evidence import gather
from octavo.app.documents.index import Indexer
from octavo.app.documents.parse import Reader
from octavo.app.documents.question import content_of, covered, terms_of
from octavo.app.documents.refusal import judge
from octavo.app.documents.retrieve import NO_EMBEDDER, retrieve
from octavo.storage.documents import Documents, StoredDocument
from octavo.storage.library import open_library

Add = Callable[..., StoredDocument]


class LetterEncoder:
    """A vector of how often each letter occurs: near for texts of the same words, whatever their order."""

    dimensions = 32

    def encode(self, texts: Any, *, is_cancelled: Any = None) -> np.ndarray:
        vectors = np.zeros((len(texts), 32), np.float32)
        for row, text in enumerate(texts):
            for character in text.casefold():
                vectors[row, ord(character) % 32] += character.isalnum()
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Documents]:
    with open_library(tmp_path / "documents.db") as database:
        yield Documents(database)


@pytest.fixture
def add(documents: Documents, tmp_path: Path, reader: Reader) -> Add:
    def call(name: str, text: str) -> StoredDocument:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        (result,) = Indexer(documents, reader).add([path])
        assert result.document is not None
        return result.document

    return call


def words(text: str) -> int:
    return len(text.split())


def article(n: int, sentence: str) -> str:
    filler = f"The committee met in room {n} and talked about the usual matters of the month. " * 9
    return f"# Article {n}\n\n{sentence} {filler}\n\n"


def test_both_lists_are_fused_and_the_absence_of_one_is_told(documents: Documents, add: Add) -> None:
    document = add("minutes.md", "".join(article(n, f"Heron number {n} was seen.") for n in range(8)))
    found = retrieve(documents, "Which heron was seen in article 5?", [document])
    assert found.notes == [NO_EMBEDDER]
    assert "number 5" in found.candidates[0].chunk.text
    embedder = Embedder("letters", LetterEncoder())  # type: ignore[arg-type]
    assert embed_missing(documents, embedder) == document.num_chunks
    assert embed_missing(documents, embedder) == 0
    fused = retrieve(documents, "Which heron was seen in article 5?", [document], embedder=embedder)
    assert fused.notes == []
    best = fused.candidates[0]
    assert best.fused == pytest.approx(1 / (60 + (best.word_rank or 0)) + 1 / (60 + (best.vector_rank or 0)))
    assert set(fused.seconds) == {"words", "embed", "vectors", "fuse"}


def test_every_candidate_has_a_row_with_its_reason(documents: Documents, add: Add) -> None:
    text = "".join(article(n, f"The heron of pond {n} weighs {n} kilograms.") for n in range(6))
    copy = add("copy.md", article(1, "The heron of pond 1 weighs 1 kilograms."))
    document = add("ponds.md", text)
    found = retrieve(documents, "How much does the heron of pond 1 weigh?", [document, copy])
    evidence = gather("How much does the heron of pond 1 weigh?", found.candidates, 330, words)
    reasons = {row.reason for row in evidence.ledger}
    assert len(evidence.ledger) == len(found.candidates)
    assert "duplicate of C1" in reasons
    assert "over budget" in reasons
    assert [source.id for source in evidence.sources] == [f"C{n}" for n in range(1, len(evidence.sources) + 1)]
    assert sum(words(source.text) for source in evidence.sources) <= 330
    for source in evidence.sources:
        assert documents.text(source.document)[source.start : source.end] == source.chunk
    json.dumps([row.as_json() for row in evidence.ledger])


def test_trimming_takes_whole_sentences_and_no_code(documents: Documents, add: Add) -> None:
    prose = add(
        "prose.txt",
        "It rained on Monday. The heron weighs two kilograms. It slept. " * 3 + "Nothing else was seen. " * 20,
    )
    found = retrieve(documents, "heron kilograms", [prose])
    evidence = gather("heron kilograms", found.candidates, 30, words)
    (source,) = evidence.sources
    assert evidence.ledger[0].decision == "trimmed"
    assert set(source.text.split(" … ")) == {"The heron weighs two kilograms."}
    code = add("m.py", "def heron(kilograms):\n" + "    kilograms = kilograms + 1\n" * 25)
    found = retrieve(documents, "heron kilograms", [code])
    evidence = gather("heron kilograms", found.candidates, 30, words)
    assert evidence.sources == ()
    assert {row.reason for row in evidence.ledger} == {"over budget"}


def test_rows_that_differ_in_a_number_are_no_duplicates(documents: Documents, add: Add) -> None:
    one = add("a.txt", "The annual fee for members of the northern club is 30 euros, payable in May by transfer.")
    two = add("b.txt", "The annual fee for members of the northern club is 45 euros, payable in May by transfer.")
    found = retrieve(documents, "annual fee of the club", [one, two])
    assert [candidate.duplicate_of for candidate in found.candidates] == [None, None]


def test_hidden_text_has_a_row(documents: Documents, add: Add) -> None:
    document = add("page.html", "<p>The heron stands.</p><p style='display:none'>The heron is a spy.</p>")
    found = retrieve(documents, "Is the heron a spy?", [document])
    evidence = gather("Is the heron a spy?", found.candidates, 100, words)
    assert [(row.decision, row.reason) for row in evidence.ledger][-1] == ("left out", "hidden text")
    assert all("spy" not in source.text for source in evidence.sources)


def test_what_a_question_is_about() -> None:
    assert content_of("What is the height of the tower?") == "height tower"
    assert content_of("Wie hoch ist der Turm?") == "Turm"
    assert content_of("Wie heißt die Vorsitzende?") == "Vorsitzende"
    assert content_of("Wie oft müssen wir das tun, wenn die Tür klemmt?") == "tun Tür klemmt"
    assert terms_of("会议讨论了什么") == ["会议", "议讨", "讨论"]
    assert covered(["towers", "paying", "xyz"], ["The tower is paid for; payment is due."]) == ["towers"]
    assert content_of("What is it?") == "What is it?"


@pytest.mark.parametrize(
    "question", ["Why is the sky blue?", "Who discovered radium?", "Wann begann der Krieg?", "天空为什么是蓝色的？"]
)
def test_what_the_document_does_not_speak_of_is_refused(documents: Documents, add: Add, question: str) -> None:
    """anything-llm#1430."""
    document = add("minutes.md", "".join(article(n, f"Heron number {n} was seen.") for n in range(8)))
    verdict = judge(retrieve(documents, question, [document]), question)
    assert verdict.refused
    answered = retrieve(documents, "Which heron number was seen?", [document])
    assert not judge(answered, "Which heron number was seen?").refused
