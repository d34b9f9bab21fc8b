"""From which score on a model is believed: 0.85, or more for a model that sees contradictions too easily.

Measured on the hand-written pairs that are not held out, and only where the model would be asked at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from octavo.app.memory.check import THRESHOLD, Judge, may_be_read
from octavo.app.memory.claims import Claim
from octavo.app.memory.evaluation import DAY, remembered
from octavo.app.memory.generated import Pair
from octavo.app.memory.keeper import facts
from octavo.app.memory.normalise import statements
from octavo.app.memory.rules import compare

FILE = "calibration.json"  # beside the model
_GRID = (THRESHOLD, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_FALSE_ALARMS = 0.05  # share of the pairs without a conflict that may be called one


def calibrate(judge: Judge, pairs: Sequence[Pair]) -> float:
    """The lowest threshold of the grid at which at most 5 % of the pairs without a conflict are called one; the
    highest if none is low enough."""
    harmless = [pair for pair in pairs if pair.verdict in ("compatible", "duplicate") and is_asked(pair)]
    if not harmless:
        return THRESHOLD
    scores = [score.contradiction for score in judge.scores([(pair.old, pair.new) for pair in harmless])]
    fitting = (limit for limit in _GRID if sum(score >= limit for score in scores) <= _FALSE_ALARMS * len(scores))
    return next(fitting, _GRID[-1])


def is_asked(pair: Pair) -> bool:
    """True for a pair that the rules leave to a model."""
    new = [
        claim for statement in statements(pair.new, DAY) for claim in facts(statement).claims if not claim.is_implied
    ]
    return any(_is_open(old, claim) for old in remembered(pair.old) for claim in new)


def write_threshold(folder: Path, threshold: float) -> None:
    """Keep a model's threshold beside it."""
    (folder / FILE).write_text(json.dumps({"threshold": threshold}) + "\n", encoding="utf-8")


def read_threshold(folder: Path) -> float:
    """The threshold kept beside a model, or the usual one."""
    try:
        return float(json.loads((folder / FILE).read_text(encoding="utf-8"))["threshold"])
    except (OSError, ValueError, KeyError, TypeError):
        return THRESHOLD


def _is_open(old: Claim, new: Claim) -> bool:
    return may_be_read(old, new) and not compare(old, new).decided
