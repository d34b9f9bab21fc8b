"""Whether the evidence can answer the question at all, decided before anything is generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.documents.question import covered
from octavo.app.documents.retrieve import passage_of

if TYPE_CHECKING:
    from octavo.app.documents.retrieve import Retrieval

_LOOKED_AT = 5  # candidates that are looked at
# Set on one half of the bundled questions (`octavo bench retrieval`), in the middle of a plateau: the weight of the
# words covered against the cosine of the nearest chunk, and the score below which a question is refused; without an
# embedder, words alone.
COVERAGE_WEIGHT = 0.8
THRESHOLD = 0.365
THRESHOLD_BY_WORDS = 0.365


@dataclass(frozen=True, slots=True)
class Verdict:
    """`coverage` is the weighted share of the question's words that one chunk holds, from 0 to 1."""

    refused: bool
    coverage: float
    score: float
    missing: tuple[str, ...]


def judge(found: Retrieval) -> Verdict:
    """Refuse a question whose words no single passage brings together, and whose meaning none comes near.

    Words count by their rarity, so that one which the documents do not hold at all weighs most.
    """
    weights = found.weights
    total = sum(weights.values())
    best = [candidate for candidate in found.candidates if candidate.duplicate_of is None][:_LOOKED_AT]
    held = [covered(weights, [f"{passage_of(candidate.chunk)} {candidate.document.name}"]) for candidate in best]
    fullest = max(held, key=lambda terms: sum(weights[term] for term in terms), default=[])
    coverage = sum(weights[term] for term in fullest) / total if total else 0.0
    cosines = [candidate.cosine for candidate in found.candidates if candidate.cosine is not None]
    score = COVERAGE_WEIGHT * coverage + (1 - COVERAGE_WEIGHT) * max(cosines) if cosines else coverage
    threshold = THRESHOLD if cosines else THRESHOLD_BY_WORDS
    missing = tuple(term for term in weights if term not in fullest)
    return Verdict(not found.candidates or score < threshold, round(coverage, 4), round(score, 4), missing)
