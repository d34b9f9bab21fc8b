"""From which score on a model is believed: 0.85, or more for a model that sees contradictions too easily.

Measured once per model, on pairs of which the rules decide none, for only those are ever shown to it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from octavo.app.memory.check import THRESHOLD, Judge, may_be_read
from octavo.app.memory.claims import Claim
from octavo.app.memory.evaluation import DAY, remembered
from octavo.app.memory.generated import Pair
from octavo.app.memory.keeper import facts
from octavo.app.memory.normalise import statements
from octavo.app.memory.rules import compare

FILE = "calibration.json"  # beside the model
NEVER = 2.0  # no score reaches it: the model is never believed
_GRID = (THRESHOLD, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_FALSE_ALARMS = 0.05  # share of the harmless pairs that may be called contradictions


@dataclass(frozen=True, slots=True)
class Calibration:
    """The threshold of one model, by the fingerprint of its weights: the share of harmless pairs it would call
    contradictions, and of contradictory ones that it finds, among so many pairs."""

    fingerprint: str
    threshold: float
    false_alarms: float
    found: float
    pairs: int

    @property
    def is_believed(self) -> bool:
        """False for a model that sees contradictions everywhere, at any threshold."""
        return self.threshold <= 1.0


def calibrate(judge: Judge, fingerprint: str) -> Calibration:
    """The lowest threshold of the grid at which at most 5 % of the harmless pairs are called contradictions; `NEVER` if
    there is none."""
    harmless, contradictory = calibration_pairs()
    scores = [score.contradiction for score in judge.scores(harmless)]
    hits = [score.contradiction for score in judge.scores(contradictory)]
    threshold = next((limit for limit in _GRID if _share(scores, limit) <= _FALSE_ALARMS), NEVER)
    measures = round(_share(scores, threshold), 4), round(_share(hits, threshold), 4)
    return Calibration(fingerprint, threshold, *measures, len(scores) + len(hits))


def calibration_pairs() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Harmless and contradictory pairs (old, new)."""
    with resources.files("octavo.assets").joinpath("calibration_pairs.toml").open("rb") as stream:
        document = tomllib.load(stream)
    harmless, contradictory = ([(old, new) for old, new in document[kind]] for kind in ("harmless", "contradictory"))
    return harmless, contradictory


def is_asked(pair: Pair) -> bool:
    """True for a pair that the rules leave to a model."""
    new = [
        claim for statement in statements(pair.new, DAY) for claim in facts(statement).claims if not claim.is_implied
    ]
    return any(_is_open(old, claim) for old in remembered(pair.old) for claim in new)


def write_calibration(folder: Path, calibration: Calibration) -> None:
    """Keep it beside the model; where the folder cannot be written, it is made anew the next time."""
    with suppress(OSError):
        (folder / FILE).write_text(json.dumps(asdict(calibration)) + "\n", encoding="utf-8")


def read_calibration(folder: Path, fingerprint: str) -> Calibration | None:
    """The calibration kept beside a model; None if there is none, or it was of other weights."""
    try:
        found = Calibration(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.fingerprint == fingerprint else None


def _share(scores: Sequence[float], limit: float) -> float:
    return sum(score >= limit for score in scores) / len(scores)


def _is_open(old: Claim, new: Claim) -> bool:
    return may_be_read(old, new) and not compare(old, new).decided
