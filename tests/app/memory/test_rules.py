"""Verdicts by rules alone, on pairs of statements."""

from __future__ import annotations

import pytest

from octavo.app.memory.evaluation import hand_written, judge_pairs, report, verdict_of
from octavo.app.memory.generated import generate
from octavo.app.memory.keeper import Keeper
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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Berlin", "I live with my parents"),
        ("I live in Berlin", "I live in a small flat"),
        ("I work at Siemens", "I work from home on Fridays"),
        ("I work at Siemens", "I work at night"),
        ("My name is Anna", "My name is Anna Schmidt"),
        ("I get up at 6", "I get up at 9 on weekends"),
        ("I'm from Italy", "I come from a large family"),
        ("My phone number is 555-1234", "My phone is broken"),
        ("My home is in Berlin", "My home is a mess"),
        ("My job is a teacher", "My job is stressful"),
        ("I work at Siemens", "My company is hiring"),
        ("My birthday is May 3", "My birthday is coming up"),
        ("I'm married", "I'm engaged in politics"),
        ("I live in Berlin", "I moved to Linux"),
        ("I live in Berlin", "I moved to a new desk"),
        ("I'm called Peter", "I go by bike"),
        ("I live in Berlin", "I stay in bed"),
        ("I'm 34", "I'm 5 minutes late"),
        ("I'm 34", "I'm 80 kg"),
        ("I weigh 80 kg", "I'm 34"),
        ("I take 10 mg of lisinopril", "I take 10 mg of lisinopril at night"),
        ("I have two cats", "I have two cats and a dog"),
        ("I work at Siemens", "I work for free on Sundays"),
        ("My boss is Bob", "My boss is annoying"),
        ("My doctor is Smith", "My doctor is away"),
        ("I run 3 times a week", "I run once a week with my brother"),
        ("The deadline for Apollo is May 3", "The deadline for Apollo is tight"),
        ("Our rent is 900 euros", "Our rent is too high"),
        ("My favourite colour is blue", "My favourite colour is not red"),
        ("I live in Berlin", "I live near the station"),
        ("I'm a nurse", "I'm a vegetarian"),
        ("I love my dog", "My dog hates cats"),
        ("I use Python", "I don't use Python 2"),
        ("I like cats", "I don't like cats on the table"),
        ("I have a car", "I don't have a car key"),
        ("I like coffee", "I don't like coffee shops"),
        ("I drink tea", "I don't drink tea without sugar"),
        ("I play the guitar", "I don't play the guitar on Sundays"),
        ("I live in Tokyo", "I'd like to live in Kyoto"),
        ("I live in Tokyo", "My company is based in Osaka"),
        ("I speak French", "I don't speak French well"),
        ("I eat meat", "I don't eat much meat"),
        ("I love Berlin", "I don't love Berlin's weather"),
        ("我住在北京", "我住在一个小公寓"),
        ("我叫王伟", "大家都叫我小王"),
        ("我喜欢咖啡", "我不喜欢咖啡店"),
        ("我在谷歌工作", "我在家工作"),
        ("我每天六点起床", "我周末九点起床"),
    ],
)
def test_what_only_looks_like_another_value_replaces_nothing(old: str, new: str) -> None:
    assert verdict_of(old, new) not in ("update", "contradiction")


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


GERMAN = (
    "Ich liebe Kaffee", "Ich hasse Kaffee", "Ich wohne in Hamburg", "Ich esse gern Steak", "Ich habe keinen Hund",
    "Ich nehme 5 mg Lisinopril", "Ich bin 41 Jahre alt", "Meine Frau arbeitet bei Bosch", "Bin nicht mehr vegan",
    "Kein Koffein bitte", "War in Berlin", "Trinke gerne Cola", "Mag Steak", "Esse Fleisch", "Habe Coffee gern",
)  # fmt: skip


def test_what_is_said_in_a_language_without_rules_stays_unknown_and_never_alarms(keeper: Keeper) -> None:
    for text in ("I'm severely allergic to caffeine", "I love coffee", "I live in Berlin", "I'm vegan", "I have a dog",
                 "I take 10 mg of lisinopril", "I'm 40 years old", "My wife works at Siemens"):  # fmt: skip
        keeper.add(text)
    for text in GERMAN:
        assert [check.verdict for check in keeper.check(text)] == ["compatible"], text
        (outcome,) = keeper.add(text)
        assert outcome.memory is not None
        assert outcome.memory.text == text


@pytest.mark.parametrize(
    "said",
    [
        "I drink three cups of green tea a day", "I drink 2 coffees a day", "I drink about four cans of cola a week",
        "I have two espressos every morning", "I drank a whole pot of coffee", "I drink half a litre of cola daily",
        "I can't live without coffee", "I want to try matcha", "我每天早上喝一杯拿铁",
    ],
)  # fmt: skip
def test_however_much_of_it_an_allergy_is_met(said: str) -> None:
    assert verdict_of("I'm severely allergic to caffeine", said) == "tension"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("I'm allergic to penicillin", "My doctor prescribed me amoxicillin", "tension"),
        ("I'm allergic to penicillin", "Dr. Meyer has put me on amoxicillin for a week", "tension"),
        ("I'm allergic to penicillin", "My doctor prescribed me rest", "compatible"),
        ("My deadline for Apollo is 5 June", "The Apollo deadline moved to 12 June", "update"),
        ("The deadline is 5 June", "The deadline has shifted to 12 June", "update"),
    ],
)
def test_prescriptions_and_deadlines(old: str, new: str, verdict: Verdict) -> None:
    assert verdict_of(old, new) == verdict


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("我对花生过敏", "我对花生不再过敏", "tension"),
        ("我对花生过敏", "我对花生已经不过敏了", "tension"),
        ("我对花生过敏", "花生酱是我的最爱", "tension"),
        ("我在华为工作", "我去腾讯上班了", "update"),
        ("我在华为工作", "我去公司上班了", "compatible"),
        ("我没有宠物", "我又养了一只狗", "contradiction"),
        ("我有一只猫", "我又养了一只狗", "compatible"),
        ("I have no pets", "我有一只猫", "contradiction"),
    ],
)
def test_chinese_turns_of_phrase(old: str, new: str, verdict: Verdict) -> None:
    assert verdict_of(old, new) == verdict
