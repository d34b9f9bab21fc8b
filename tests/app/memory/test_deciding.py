"""Two memories that do not go together: each choice, and each choice undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octavo.app.errors import AppError
from octavo.app.memory.deciding import decide
from octavo.app.memory.keeper import Keeper

Remembered = Callable[[], set[str]]
ALLERGY, COFFEE = "I'm severely allergic to caffeine", "I like coffee"
TEN, FIVE = "I take 10 mg of lisinopril", "I take 5 mg of lisinopril"


@pytest.mark.parametrize(
    ("old", "new", "keep", "holds"),
    [
        (ALLERGY, COFFEE, "both", {ALLERGY, COFFEE}),
        (ALLERGY, COFFEE, "old", {ALLERGY}),
        (ALLERGY, COFFEE, "new", {COFFEE}),
        (TEN, FIVE, "new", {FIVE}),
        (TEN, FIVE, "old", {TEN}),
        (TEN, FIVE, "both", {TEN, FIVE}),
    ],
)
def test_what_is_kept_holds_and_one_step_undoes_it(
    keeper: Keeper, remembered: Remembered, old: str, new: str, keep: str, holds: set[str]
) -> None:
    keeper.add(old)
    keeper.add(new)
    before = remembered()
    (conflict,) = keeper.memories.conflicts(only_open=True)
    decide(keeper, conflict.id, keep)

    assert remembered() == holds
    assert keeper.memories.conflicts(only_open=True) == []
    keeper.undo()
    assert remembered() == before
    assert keeper.memories.conflicts(only_open=True) == [conflict]


def test_a_decision_that_is_none_is_refused(keeper: Keeper) -> None:
    keeper.add(ALLERGY)
    keeper.add(COFFEE)
    (conflict,) = keeper.memories.conflicts()
    for given, keep in (("nosuch", "both"), (conflict.id, "neither"), ("", "maybe")):
        with pytest.raises(AppError):
            decide(keeper, given, keep)
