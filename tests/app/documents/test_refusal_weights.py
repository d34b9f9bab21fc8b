"""What refusal looks at: words together in a sentence, meaning where the embedder was fitted for it."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.app.documents.embedder import Embedder
from octavo.app.documents.question import in_context, is_english
from octavo.app.documents.refusal import judge
from octavo.app.documents.retrieve import Candidate, Retrieval
from octavo.storage.document_records import StoredChunk, StoredDocument


class Fixed:
    """Says that the question is as near to every sentence as it was told."""

    def __init__(self, cosine: float) -> None:
        self.cosine = cosine

    def encode(self, texts: list[str], *, is_cancelled: object = None) -> np.ndarray:
        vectors = np.zeros((len(texts), 2), np.float32)
        vectors[:, 0], vectors[:, 1] = self.cosine, (1 - self.cosine**2) ** 0.5
        vectors[0] = 1, 0
        return vectors


def found(text: str, **weights: float) -> Retrieval:
    chunk = StoredChunk(1, 1, 0, len(text), None, (), "", text)
    document = StoredDocument(
        1, "d", "/d", "d", "present", 1, "", "", 1, 1, "", "", "ok", {}, [], [], len(text), 1, 1
    )  # fmt: skip
    return Retrieval([Candidate(chunk, document)], weights)


def embedder(cosine: float, name: str = "all-MiniLM-L6-v2") -> Embedder:
    return Embedder(name, Fixed(cosine))  # type: ignore[arg-type]


def test_words_in_one_sentence_say_more_than_words_in_one_passage() -> None:
    together = judge(found("The pump hums at night. Rain fell.", pump=2.0, night=2.0), "")
    apart = judge(found("The pump hums. Rain fell on it. It was cold. The night was long.", pump=2.0, night=2.0), "")
    assert together.coverage == apart.coverage == 1.0
    assert together.score > apart.score


def test_meaning_decides_where_half_of_the_words_are_there() -> None:
    half = found("The pump hums.", pump=2.0, noise=2.0)
    question = "What noise does the pump make?"
    assert not judge(half, question, embedder(0.8)).refused
    assert judge(half, question, embedder(0.0)).refused


def test_cosines_that_the_weights_were_not_fitted_for_are_left_out() -> None:
    half = found("The pump hums.", pump=2.0, noise=2.0)
    by_words = judge(half, "What noise does the pump make?")
    assert judge(half, "What noise does the pump make?", embedder(0.9, "/a/multilingual/one")) == by_words
    assert judge(half, "Welches Geräusch macht die Pumpe?", embedder(0.9)) == by_words
    assert judge(half, "水泵发出什么声音？", embedder(0.9)) == by_words


def test_without_candidates_everything_is_refused() -> None:
    verdict = judge(Retrieval([], {"pump": 1.0}), "Which pump?")
    assert (verdict.refused, verdict.coverage, verdict.missing) == (True, 0.0, ("pump",))


@pytest.mark.parametrize("question", ["How high is the rent?", "rent", "What does tank.py do?", "1984"])
def test_english_questions(question: str) -> None:
    assert is_english(question)


@pytest.mark.parametrize("question", ["Wie hoch ist die Miete?", "Wann beginnt der Vertrag?", "租金是多少？"])
def test_questions_in_other_languages(question: str) -> None:
    assert not is_english(question)


def test_only_a_question_that_points_back_is_looked_up_with_the_one_before() -> None:
    assert in_context("How old is it?", ["Who owns the house?"]) == "How old is it? Who owns the house?"
    assert in_context("Und wem gehört es davon?", ["Was ist ein Pfand?"]).endswith("Was ist ein Pfand?")
    assert in_context("Is there a pool?", ["Who owns the house?"]) == "Is there a pool?"
    assert in_context("Who wrote “It”?", ["Who owns the house?"]) == "Who wrote “It”?"
    assert in_context("How old is it?", []) == "How old is it?"


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("I eat walnuts. How high is the deposit?", "How high is the deposit?"),
        ("How high is the deposit? I eat walnuts.", "How high is the deposit?"),
        ("I eat walnuts\nHow high is the deposit?", "How high is the deposit?"),
        ("I eat walnuts. Tell me how high the deposit is.", "Tell me how high the deposit is."),
        ("I eat walnuts. How high is the deposit? Who pays it?", "How high is the deposit? Who pays it?"),
        ("I eat walnuts. How high is the deposit in this contract?", "How high is the deposit in this contract?"),
        ("Ich esse Nüsse. Wie hoch ist die Kaution?", "Wie hoch ist die Kaution?"),
        ("我吃核桃。押金是多少？", "押金是多少？"),
    ],
)
def test_what_a_message_tells_is_not_looked_up_beside_what_it_asks(message: str, asked: str) -> None:
    assert in_context(message, ["Who owns the house?"]) == asked


@pytest.mark.parametrize(
    "message",
    [
        "The landlord wants to raise the rent. May he do that?",
        "My dog is called Rex. What about him?",
        "The walls are damp. What now?",
        "I eat walnuts.",
        "Mr. Smith owns it. Nobody else does.",
    ],
)
def test_what_a_message_tells_is_looked_up_where_its_question_needs_it(message: str) -> None:
    assert in_context(message, []) == message
