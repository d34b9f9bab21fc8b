"""Whether the evidence can answer the question at all, decided before anything is generated.

A logistic regression on what one passage and one sentence of it share with the question, in words and, where the
default embedder reads the question's language, in meaning. Its weights were fitted on one half of the bundled questions
(`octavo bench retrieval`), those with meaning on the English ones and those about code. Another embedder's cosines lie
elsewhere, so with one words decide alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.documents.question import credited, is_english
from octavo.app.documents.retrieve import passage_of
from octavo.app.documents.sentences import sentences

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.app.documents.retrieve import Candidate, Retrieval

_LOOKED_AT = 5  # candidates that are looked at
_EMBEDDED = 3  # candidates whose sentences are compared by meaning


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the logit that the documents answer."""

    coverage: float
    sentence_coverage: float
    sentence_cosine: float
    bias: float


BY_MEANING = Weights(5.74, 5.23, 4.11, -6.30)
BY_WORDS = Weights(9.18, 5.70, 0.0, -5.40)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`coverage` is the weighted share of the question's words that one chunk holds; `score` the probability that the
    documents answer, refused below one half."""

    refused: bool
    coverage: float
    score: float
    missing: tuple[str, ...]


def judge(found: Retrieval, question: str, embedder: Embedder | None = None) -> Verdict:
    """Refuse a question whose words no passage brings together, and whose meaning no sentence comes near.

    Words count by their rarity, so that one which the documents do not hold at all weighs most.
    """
    weights = found.weights
    best = [candidate for candidate in found.candidates if candidate.duplicate_of is None][:_LOOKED_AT]
    held = [credited(weights, f"{passage_of(candidate.chunk)} {candidate.document.name}") for candidate in best]
    fullest = max(held, key=lambda earned: _share(weights, earned), default={})
    coverage = _share(weights, fullest)
    sentence = max((_sentence_coverage(weights, candidate) for candidate in best), default=0.0)
    cosine = _nearest_sentence(question, best[:_EMBEDDED], embedder)
    fitted = BY_WORDS if cosine is None else BY_MEANING
    logit = fitted.coverage * coverage + fitted.sentence_coverage * sentence + fitted.bias
    logit += fitted.sentence_cosine * (cosine or 0.0)
    score = 1 / (1 + math.exp(-logit))
    missing = tuple(term for term in weights if fullest.get(term, 0.0) < 1)
    return Verdict(not best or score < 0.5, round(coverage, 4), round(score, 4), missing)


def _share(weights: Mapping[str, float], earned: Mapping[str, float]) -> float:
    total = sum(weights.values())
    return sum(weights[term] * credit for term, credit in earned.items()) / total if total else 0.0


def _sentence_coverage(weights: Mapping[str, float], candidate: Candidate) -> float:
    """The share that two sentences in a row hold."""
    text = candidate.chunk.text
    spans = sentences(text)
    starts = [start for start, _ in (*spans[:1], *spans)]
    return max(
        (_share(weights, credited(weights, text[start:end])) for start, (_, end) in zip(starts, spans, strict=False)),
        default=0.0,
    )


def _nearest_sentence(question: str, best: Iterable[Candidate], embedder: Embedder | None) -> float | None:
    """The cosine of the question and the sentence nearest to it; None where the weights are not fitted for it."""
    if embedder is None or not embedder.is_default or not is_english(question):
        return None
    texts = [candidate.chunk.text[start:end] for candidate in best for start, end in sentences(candidate.chunk.text)]
    vectors = embedder.vectors([question, *texts])
    assert vectors is not None, "nothing cancels it"
    return float((vectors[1:] @ vectors[0]).max()) if texts else 0.0
