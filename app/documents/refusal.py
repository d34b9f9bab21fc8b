"""Whether the evidence can answer the question at all, decided before anything is generated.

A logistic regression on what one passage and one sentence of it share with the question, in words and, where the
default embedder reads the question's language, in meaning. Its weights were fitted on one half of the bundled questions
(`octavo bench retrieval`), those with meaning on the English ones and those about code. Another embedder's cosines lie
elsewhere, so with one words decide alone.

A question in the documents' own words shares all of them. So where it asks for a kind of value, a date or a price, what
sentences share counts as far as such a value stands with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.documents.question import credited, is_english, related
from octavo.app.documents.retrieve import passage_of
from octavo.app.documents.sentences import sentences
from octavo.app.documents.wanted import Wanted, wanted

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.app.documents.retrieve import Candidate, Retrieval

_LOOKED_AT = 5  # candidates that are looked at
_EMBEDDED = 3  # candidates whose sentences are compared by meaning
_RELATED = 0.5  # credit for a part of a German compound, or another form of a word
_LACKING = 12.0  # weight of what sentences share without the value that is asked for; on the half that is fitted on, 8
# finds 15 of 36 close questions without an answer, 12 finds 17 and 16 finds 19, none of them refusing one more wrongly


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
    documents answer, refused below one half. `lacking` is the kind of value that was asked for, if it decided."""

    refused: bool
    coverage: float
    score: float
    missing: tuple[str, ...]
    lacking: str = ""


def judge(found: Retrieval, question: str, embedder: Embedder | None = None) -> Verdict:
    """Refuse a question whose words no passage brings together, and whose meaning no sentence comes near.

    Words count by their rarity, so that one which the documents do not hold at all weighs most.
    """
    weights, asked = found.weights, wanted(question)
    best = [candidate for candidate in found.candidates if candidate.duplicate_of is None][:_LOOKED_AT]
    is_foreign = not is_english(question)
    held = [
        _credited(weights, f"{passage_of(candidate.chunk)} {candidate.document.name}", is_foreign) for candidate in best
    ]
    fullest = max(held, key=lambda earned: _share(weights, earned), default={})
    coverage = _share(weights, fullest)
    pairs = [_sentence_coverage(weights, candidate, asked, is_foreign) for candidate in best]
    sentence, answering = (max((pair[part] for pair in pairs), default=0.0) for part in (0, 1))
    cosine = _nearest_sentence(question, best[:_EMBEDDED], embedder)
    fitted = BY_WORDS if cosine is None else BY_MEANING
    logit = fitted.coverage * coverage + fitted.sentence_coverage * sentence + fitted.bias
    logit += fitted.sentence_cosine * (cosine or 0.0)
    lacking = _LACKING * (sentence - answering)
    score = 1 / (1 + math.exp(lacking - logit))
    missing = tuple(term for term in weights if fullest.get(term, 0.0) < 1)
    said = asked.kind.said if asked is not None and logit >= 0.0 > logit - lacking else ""
    return Verdict(not best or score < 0.5, round(coverage, 4), round(score, 4), missing, said)


def _share(weights: Mapping[str, float], earned: Mapping[str, float]) -> float:
    total = sum(weights.values())
    return sum(weights[term] * credit for term, credit in earned.items()) / total if total else 0.0


def _credited(weights: Mapping[str, float], text: str, is_foreign: bool) -> dict[str, float]:
    found = credited(weights, text)
    if is_foreign:
        left = [term for term in weights if found.get(term, 0.0) < _RELATED]
        found |= dict.fromkeys(related(left, text), _RELATED)
    return found


def _sentence_coverage(
    weights: Mapping[str, float], candidate: Candidate, asked: Wanted | None, is_foreign: bool
) -> tuple[float, float]:
    """The share that two sentences in a row hold, and the share of two with a value of the kind that is asked for.

    Code and tables are not written in sentences, and may have any value: its unit may stand in the table's header.
    """
    text, place = candidate.chunk.text, candidate.chunk.start
    spans = sentences(text)
    solid = [(start - place, end - place) for start, end in candidate.document.solid]
    best = answering = 0.0
    has_value = False
    for place, (start, end) in enumerate(spans):
        had_value, has_value = (
            has_value,
            (
                asked is None
                or any(first < end and last > start for first, last in solid)
                or asked.is_in(text[start:end])
            ),
        )
        first = spans[max(place - 1, 0)][0]
        share = _share(weights, _credited(weights, text[first:end], is_foreign))
        best = max(best, share)
        answering = max(answering, share if has_value or had_value else 0.0)
    return best, answering


def _nearest_sentence(question: str, best: Iterable[Candidate], embedder: Embedder | None) -> float | None:
    """The cosine of the question and the sentence nearest to it; None where the weights are not fitted for it."""
    if embedder is None or not embedder.is_default or not is_english(question):
        return None
    texts = [candidate.chunk.text[start:end] for candidate in best for start, end in sentences(candidate.chunk.text)]
    vectors = embedder.vectors([question, *texts])
    assert vectors is not None, "nothing cancels it"
    return float((vectors[1:] @ vectors[0]).max()) if texts else 0.0
