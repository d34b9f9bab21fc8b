"""/remember, /memories and /forget."""

from __future__ import annotations

import pytest

from octavo.app.errors import AppError
from octavo.app.memory import slash
from octavo.app.memory.keeper import Keeper


def test_remember_list_and_forget(keeper: Keeper) -> None:
    assert slash.memories(keeper) == ["Nothing is remembered yet."]
    assert slash.remember(keeper, "I'm allergic to peanuts")[0].startswith("compatible")
    assert slash.remember(keeper, "I love peanut butter")[0].startswith("tension")
    assert len(slash.memories(keeper)) == 2
    assert [line.split("  ")[1] for line in slash.memories(keeper, "butter")] == ["I love peanut butter"]

    assert slash.forget(keeper, "I love peanut butter") == ["Forgot “I love peanut butter”."]
    (left,) = slash.memories(keeper)
    assert slash.forget(keeper, left.split()[0]) == ["Forgot “I'm allergic to peanuts”."]


def test_what_cannot_be_done_is_said(keeper: Keeper) -> None:
    slash.remember(keeper, "I like lake Como")
    slash.remember(keeper, "I visited lake Garda")

    with pytest.raises(AppError, match="Several memories fit"):
        slash.forget(keeper, "lake")
    with pytest.raises(AppError, match="Nothing is remembered"):
        slash.forget(keeper, "zebra")
    with pytest.raises(AppError, match="Say which"):
        slash.forget(keeper, " ")
    with pytest.raises(AppError, match="a question"):
        slash.remember(keeper, "Do I like tea?")
