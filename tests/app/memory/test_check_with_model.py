"""A model beside the rules: what it may decide, what it may not, and that no pair is read twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from octavo.app.errors import AppError
from octavo.app.memory.calibration import NEVER, calibrate, calibration_pairs, is_asked
from octavo.app.memory.check import Scores
from octavo.app.memory.evaluation import hand_written
from octavo.app.memory.generated import Pair
from octavo.app.memory.keeper import Keeper
from octavo.app.memory.models import FolderJudge, find_judge
from octavo.engine.nli import PairScores
from octavo.storage.database import Database
from octavo.storage.paths import Paths


class Judge:
    """Says the same of every pair, and keeps what it was asked."""

    name = "fake"
    threshold = 0.85

    def __init__(self, contradiction: float, entailment: float = 0.0) -> None:
        self._says = Scores(contradiction, entailment)
        self.asked: list[tuple[str, str]] = []

    def reads(self, text: str) -> bool:
        return "nicht" not in text

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[Scores]:
        self.asked += pairs
        return [self._says for _ in pairs]


def test_a_model_raises_an_alarm_and_replaces_nothing(database: Database) -> None:
    judge = Judge(0.99)
    keeper = Keeper(database, judge=judge)
    keeper.add("The kitchen smells of cinnamon.")
    (outcome,) = keeper.add("The kitchen smells of nothing at all.")

    assert set(judge.asked) == {("The kitchen smells of cinnamon.", "The kitchen smells of nothing at all.")}
    assert (outcome.check.verdict, outcome.check.checked_by) == ("tension", "rules and fake")
    assert len(keeper.memories.list()) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I have a dog", "I have a cat"),
        ("I like coffee", "My friend Anna hates coffee"),
        ("I live in Berlin", "I used to live in Paris"),
        ("I speak French", "I speak German"),
        ("I love jazz", "If I had time I would hate jazz"),
    ],
)
def test_subject_slot_and_cardinality_hold_against_a_model_that_sees_contradictions_everywhere(
    database: Database, old: str, new: str
) -> None:
    judge = Judge(0.99)
    keeper = Keeper(database, judge=judge)
    keeper.add(old)
    try:
        (check,) = keeper.check(new)
    except AppError:
        return  # not stated at all
    assert check.verdict == "compatible"
    assert judge.asked == []


def test_an_entailment_is_a_duplicate_unless_numbers_differ(database: Database) -> None:
    keeper = Keeper(database, judge=Judge(0.01, 0.99))
    keeper.add("The kitchen smells of cinnamon.")

    assert keeper.check("The smell of the kitchen is cinnamon.")[0].verdict == "duplicate"
    assert keeper.check("The kitchen smells of 2 kinds of cinnamon.")[0].verdict == "compatible"


def test_without_a_model_unread_pairs_are_counted(keeper: Keeper) -> None:
    keeper.add("The kitchen smells of cinnamon.")
    (check,) = keeper.check("The kitchen smells of nothing at all.")

    assert (check.verdict, check.checked_by, check.num_unread) == ("compatible", "rules", 1)


def test_what_a_model_cannot_read_is_left_unread_and_raises_no_alarm(database: Database) -> None:
    judge = Judge(0.99)
    keeper = Keeper(database, judge=judge)
    keeper.add("Die Küche riecht nicht nach Zimt.")
    (check,) = keeper.check("Die Küche riecht stark nach Zimt.")

    assert (check.verdict, check.checked_by, check.num_unread) == ("compatible", "rules", 1)
    assert judge.asked == []


@pytest.mark.parametrize(("pieces", "reads_german"), [(128_100, False), (251_000, True), (None, False)])
def test_languages_a_model_reads(database: Database, tmp_path: Path, pieces: int | None, reads_german: bool) -> None:
    if pieces is not None:
        (tmp_path / "config.json").write_text(f'{{"vocab_size": {pieces}}}')
    judge = FolderJudge(tmp_path, database)

    assert judge.reads("I like coffee.")
    assert judge.reads("Ich mag keinen Kaffee.") == reads_german
    assert judge.reads("我喜欢咖啡。") == reads_german


class Encoder:
    """Stands in for the cross-encoder of a folder."""

    fingerprint, template = "f", "t"

    def __init__(self) -> None:
        self.read_pairs: list[tuple[str, str]] = []

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        self.read_pairs += pairs
        return [PairScores(len(premise) / 100, len(hypothesis) / 100) for premise, hypothesis in pairs]


def test_pairs_are_read_both_ways_and_kept(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder()
    monkeypatch.setattr("octavo.engine.nli.open_cross_encoder", lambda folder: encoder)
    pairs = [("a" * 10, "b" * 30), ("c", "d"), ("a" * 10, "b" * 30)]

    first = FolderJudge(tmp_path, database).scores(pairs)
    again = FolderJudge(tmp_path, database).scores(pairs)

    assert first == again == [Scores(0.3, 0.1), Scores(0.01, 0.01), Scores(0.3, 0.1)]
    assert encoder.read_pairs == [*pairs[:2], ("b" * 30, "a" * 10), ("d", "c")]
    encoder.fingerprint = "another model"  # type: ignore[misc]
    FolderJudge(tmp_path, database).scores(pairs[:1])
    assert len(encoder.read_pairs) == 6
    with database.reading() as connection:
        kept = connection.execute("SELECT premise FROM memory_pair_verdicts").fetchall()
    assert all(b"aaaa" not in row[0] for row in kept)


def test_which_model_is_used(database: Database, octavo_home: Path) -> None:
    paths = Paths.from_environment()

    assert find_judge(None, paths, database) is None
    assert find_judge("off", paths, database) is None
    with pytest.raises(AppError, match="no folder"):
        find_judge("nowhere", paths, database)
    (paths.models_dir / "nli").mkdir(parents=True)
    (paths.models_dir / "nli" / "name.txt").write_text("org/model\n")
    judge = find_judge(None, paths, database)
    assert judge is not None
    assert judge.name == "org/model"
    assert find_judge("off", paths, database) is None


class Graded:
    """Gives harmless pairs one score, the others another."""

    name, threshold = "graded", 0.85

    def __init__(self, harmless: float, contradictory: float) -> None:
        self._scores = harmless, contradictory

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[Scores]:
        harmless = set(calibration_pairs()[0])
        return [Scores(self._scores[pair not in harmless], 0.0) for pair in pairs]


@pytest.mark.parametrize(
    ("harmless", "contradictory", "threshold", "found"),
    [(0.1, 0.99, 0.85, 1.0), (0.93, 0.96, 0.95, 1.0), (0.96, 0.96, 0.98, 0.0), (1.0, 1.0, NEVER, 0.0)],
)
def test_each_model_has_a_threshold_of_its_own(
    harmless: float, contradictory: float, threshold: float, found: float
) -> None:
    calibration = calibrate(Graded(harmless, contradictory), "f")

    assert (calibration.threshold, calibration.found, calibration.false_alarms) == (threshold, found, 0.0)
    assert calibration.is_believed == (threshold != NEVER)


def test_calibration_pairs_are_such_as_a_model_is_asked_about() -> None:
    harmless, contradictory = calibration_pairs()
    assert min(len(harmless), len(contradictory)) >= 20
    measured = {(pair.old, pair.new) for part in hand_written() for pair in part}
    for old, new in [*harmless, *contradictory]:
        assert is_asked(Pair(old, new, "compatible"))
        assert (old, new) not in measured


def test_other_weights_are_calibrated_anew(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder()
    monkeypatch.setattr("octavo.engine.nli.open_cross_encoder", lambda folder: encoder)
    first = FolderJudge(tmp_path, database).calibration
    read = len(encoder.read_pairs)
    assert FolderJudge(tmp_path, database).calibration == first
    assert len(encoder.read_pairs) == read
    encoder.fingerprint = "another model"  # type: ignore[misc]
    assert FolderJudge(tmp_path, database).calibration.fingerprint == "another model"
    assert len(encoder.read_pairs) > read


def test_the_model_gives_way_between_batches(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder()
    monkeypatch.setattr("octavo.engine.nli.open_cross_encoder", lambda folder: encoder)
    done: list[int] = []
    judge = FolderJudge(tmp_path, database, pause=lambda: done.append(len(encoder.read_pairs)))
    judge.scores([("a" * (i + 1), "b") for i in range(20)])

    assert done == [0, 16, 32]
