"""Whether the evidence can answer the question at all, decided before anything is generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.documents.question import covered, terms_of
from octavo.app.documents.retrieve import passage_of

if TYPE_CHECKING:
    from octavo.app.documents.retrieve import Candidate

_LOOKED_AT = 3  # candidates whose words count together
# Set on one half of the bundled questions (`octavo bench retrieval`): the weight of the words covered against the
# cosine of the nearest chunk, and the score below which a question is refused; without an embedder, words alone.
COVERAGE_WEIGHT = 0.6
THRESHOLD = 0.55
THRESHOLD_BY_WORDS = 0.6


@dataclass(frozen=True, slots=True)
class Verdict:
    """`coverage` is the weighted share of the question's words that the best chunks hold, from 0 to 1."""

    refused: bool
    coverage: float
    score: float
    missing: tuple[str, ...]


def judge(question: str, candidates: Sequence[Candidate], *, by_vectors: bool) -> Verdict:
    """Refuse a question whose words the evidence lacks and whose meaning it does not come near."""
    terms = terms_of(question)
    best = [candidate for candidate in candidates if candidate.duplicate_of is None][:_LOOKED_AT]
    texts = [f"{passage_of(candidate.chunk)} {candidate.document.name}" for candidate in best]
    found = set(covered(terms, texts))
    total = sum(map(_weight, terms))
    coverage = sum(_weight(term) for term in terms if term in found) / total if total else 0.0
    cosine = max((candidate.cosine or 0.0 for candidate in candidates), default=0.0)
    score = COVERAGE_WEIGHT * coverage + (1 - COVERAGE_WEIGHT) * cosine if by_vectors else coverage
    threshold = THRESHOLD if by_vectors else THRESHOLD_BY_WORDS
    missing = tuple(term for term in terms if term not in found)
    return Verdict(not candidates or score < threshold, round(coverage, 4), round(score, 4), missing)


def _weight(term: str) -> float:
    """Numbers and long words tell more of what is asked than short ones."""
    return 1.5 if any(map(str.isdigit, term)) else min(1.0, 0.4 + 0.1 * len(term)) if term.isascii() else 1.0
