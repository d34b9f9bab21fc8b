"""How often the verdicts are right: over generated and hand-written pairs, by rules alone and with a model."""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Any

from octavo.app.memory.check import Judge, judged, with_implied
from octavo.app.memory.claims import Claim
from octavo.app.memory.generated import Pair
from octavo.app.memory.keeper import facts
from octavo.app.memory.normalise import statements
from octavo.app.memory.verdicts import GRAVITY, SUPERSEDING, Finding, Verdict, gravest
from octavo.storage.memory_records import Memory

_CONFLICTS = frozenset(("contradiction", "tension"))
DAY = date(2026, 6, 30)


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair, the verdict on it, and the milliseconds it took."""

    pair: Pair
    verdict: Verdict
    ms: float


def hand_written() -> tuple[list[Pair], list[Pair]]:
    """The pairs of the assets: those that rules were written with, and those held out."""
    with resources.files("octavo.assets").joinpath("consistency_pairs.toml").open("rb") as stream:
        document = tomllib.load(stream)
    seen: list[Pair] = []
    held_out: list[Pair] = []
    for verdict in GRAVITY:
        for i, (old, new) in enumerate(document[verdict]):
            (held_out if i % 2 else seen).append(Pair(old, new, verdict))
        seen += [Pair(old, new, verdict) for old, new in document["later"][verdict]]
    return seen, held_out


def judge_pairs(pairs: Sequence[Pair], judge: Judge | None = None) -> list[Judged]:
    """The verdict on each pair, as `Keeper` would give it with the old statement as its only memory."""
    results = []
    for pair in pairs:
        started = time.perf_counter()
        verdict = verdict_of(pair.old, pair.new, judge)
        results.append(Judged(pair, verdict, (time.perf_counter() - started) * 1e3))
    return results


def verdict_of(old: str, new: str, judge: Judge | None = None) -> Verdict:
    """The verdict on one statement beside another."""
    kept_claims = remembered(old)
    findings: list[Finding] = []
    for statement in statements(new, DAY):
        said = facts(statement).claims
        implied = [claim for claim in said if claim.is_implied]
        for claim in said:
            if claim.is_implied:
                continue
            pairs = [(_memory(old, kept), with_implied(kept, claim, implied)) for kept in kept_claims]
            met, _ = judged(pairs, claim, statement.quote, judge)
            findings += [found.finding for found in met]
    return gravest(findings).verdict if findings else "compatible"


def remembered(text: str) -> list[Claim]:
    """The claims of a statement as a memory would hold them."""
    return [claim for said in statements(text, DAY) for claim in facts(said).claims if not claim.is_implied]


def report(results: Sequence[Judged]) -> dict[str, Any]:
    """Precision and recall per verdict.

    `false_supersede` is the share of pairs that replace nothing and would have replaced something, `conflict_recall`
    that of contradictions and tensions that raise either, `hard_negatives` that of hard pairs that are left alone.
    """
    pairs = Counter((found.pair.verdict, found.verdict) for found in results)
    keeping = [found for found in results if found.pair.verdict not in SUPERSEDING]
    conflicts = [found for found in results if found.pair.verdict in _CONFLICTS]
    hard = [found for found in results if found.pair.is_hard]
    verdicts = {}
    for verdict in GRAVITY:
        right = pairs[verdict, verdict]
        said = sum(count for (_, got), count in pairs.items() if got == verdict)
        real = sum(count for (truth, _), count in pairs.items() if truth == verdict)
        verdicts[verdict] = {"precision": _share(right, said), "recall": _share(right, real), "pairs": real}
    times = sorted(found.ms for found in results)
    return {
        "pairs": len(results),
        "accuracy": _share(sum(found.verdict == found.pair.verdict for found in results), len(results)),
        "false_supersede": _share(sum(found.verdict in SUPERSEDING for found in keeping), len(keeping)),
        "conflict_recall": _share(sum(found.verdict in _CONFLICTS for found in conflicts), len(conflicts)),
        "verdicts": verdicts,
        "hard_negatives": _share(sum(found.verdict == "compatible" for found in hard), len(hard)),
        "ms_p95": round(times[int(len(times) * 0.95)], 2) if times else 0.0,
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 1.0


def _memory(text: str, claim: Claim) -> Memory:
    return Memory(
        id=claim.key(),
        text=text,
        language="",
        subject=claim.subject,
        slot=claim.slot,
        value=claim.value,
        claim=claim.document(),
        source="user",
        said=DAY.isoformat(),
        pinned=False,
        valid_from=None,
        valid_to=None,
        recorded_from="",
        recorded_to=None,
    )
