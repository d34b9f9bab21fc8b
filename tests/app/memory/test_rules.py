"""Verdicts by rules alone, on pairs of statements."""

from __future__ import annotations

import pytest

from octavo.app.memory.evaluation import hand_written, judge_pairs, report, verdict_of
from octavo.app.memory.generated import generate
from octavo.app.memory.verdicts import Verdict


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("I'm allergic to caffeine", "I like coffee", "tension"),
        ("我对咖啡因过敏", "I like cola", "tension"),
        ("I'm allergic to peanuts", "I had a peanut butter sandwich for lunch", "tension"),
        ("I'm vegan", "I love vegan burgers", "compatible"),
        ("I'm lactose intolerant", "I drink oat milk", "compatible"),
        ("I'm allergic to peanuts", "I'm not allergic to peanuts", "tension"),
        ("I'm allergic to caffeine", "I drink decaf", "compatible"),
        ("I'm allergic to caffeine", "I bought a coffee table", "compatible"),
        ("I'm lactose intolerant", "I drink lactose-free milk", "compatible"),
        ("I'm lactose intolerant", "I drink a glass of milk every morning", "tension"),
        ("I take warfarin", "I take ibuprofen for my headaches", "tension"),
        ("I don't eat meat", "I had bacon for breakfast", "tension"),
        ("I don't drink coffee in the evening", "I love coffee", "compatible"),
        ("I have no children", "My daughter started school", "tension"),
        ("I like coffee", "My wife hates coffee", "compatible"),
        ("I live in Berlin", "I used to live in Paris", "compatible"),
        ("I live in Germany", "I live in Berlin", "compatible"),
        ("I lived in Paris from 2010 to 2012", "I lived in Rome from 2013 to 2015", "compatible"),
        ("I have a dog", "I have a cat", "compatible"),
        ("I take 1 g of metformin", "I take 1000 mg of metformin", "duplicate"),
        ("I take 10 mg of metformin", "I take 5 mg of metformin", "update"),
        ("I have three cups of tea a day", "我喜欢咖啡", "compatible"),
        ("Project Apollo uses Postgres", "Project Zephyr doesn't use Postgres", "compatible"),
        ("Apollo is due on May 3, 2027", "The deadline for Apollo was moved to June 1, 2027", "update"),
    ],
)
def test_verdicts(old: str, new: str, verdict: Verdict) -> None:
    assert verdict_of(old, new) == verdict


def test_the_generated_pairs_meet_the_bounds() -> None:
    found = report(judge_pairs(generate(seed=11, per_verdict=40)))

    assert found["false_supersede"] <= 0.02
    assert found["conflict_recall"] >= 0.9


def test_the_hand_written_pairs_meet_the_bounds() -> None:
    seen, held_out = hand_written()
    found = report(judge_pairs([*seen, *held_out]))

    assert found["pairs"] >= 150
    assert found["false_supersede"] <= 0.02
    assert found["conflict_recall"] >= 0.9


def test_generated_pairs_depend_on_the_seed_alone() -> None:
    assert generate(3) == generate(3) != generate(4)
    assert len(generate(3)) >= 600
