"""Statements read as claims: subject, slot, value, polarity, modality, quantity and time; the unknown stays unknown."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app.memory.claims import Claim
from octavo.app.memory.lexicon import load_lexicon, thing
from octavo.app.memory.normalise import claims_of, statements
from octavo.app.memory.quantities import Quantity, frequency, measures, number_of
from octavo.app.memory.slots import load_slots
from octavo.app.memory.times import Interval, find_time

DAY = date(2026, 5, 13)  # a Wednesday


def claim(text: str) -> Claim:
    return next(found for found in claims_of(text, DAY) if not found.is_implied)


@pytest.mark.parametrize(
    ("text", "subject", "slot", "value", "affirmed"),
    [
        ("the user is severely allergic to caffeine", "user", "allergy", "caffeine", True),
        ("I can't stand coffee", "user", "preference", "coffee", False),
        ("I can't live without my morning espresso", "user", "preference", "espresso", True),
        ("I don't think I like coffee", "user", "preference", "coffee", False),
        ("My friend Anna hates coffee", "person:anna", "preference", "coffee", False),
        ("Anna's allergic to peanuts", "person:anna", "allergy", "peanut", True),
        ("My wife is pregnant", "person:wife", "condition", "pregnant", True),
        ("Project Apollo is written in Rust", "project:apollo", "written_in", "rust", True),
        ("Our project uses Postgres", "project:the project", "uses", "postgres", True),
        ("My doctor told me not to eat salt", "user", "avoid", "salt", True),
        ("I'm not allowed to drink alcohol", "user", "avoid", "alcohol", True),
        ("I quit smoking", "user", "consume", "tobacco", False),
        ("I no longer work at Siemens", "user", "employer", "siemens", False),
        ("Blue is my favourite colour", "user", "favourite:colour", "blue", True),
        ("Peter's favourite colour is blue", "person:peter", "favourite:colour", "blue", True),
        ("The kitchen smells of cinnamon", "", "", "the kitchen smells of cinnamon", True),
        ("Ich wohne in Köln", "", "", "ich wohne in köln", True),
        ("我对咖啡因严重过敏", "user", "allergy", "caffeine", True),
        ("我不喜欢咖啡", "user", "preference", "coffee", False),
        ("我老婆对花生过敏", "person:wife", "allergy", "peanut", True),
        ("小明喜欢咖啡", "person:小明", "preference", "coffee", True),
        ("我没有猫", "user", "owns", "cat", False),
        ("医生让我戒酒", "user", "avoid", "alcohol", True),
    ],
)  # fmt: skip
def test_subject_slot_value_polarity(text: str, subject: str, slot: str, value: str, affirmed: bool) -> None:
    found = claim(text)
    assert (found.subject, found.slot, found.value, found.affirmed) == (subject, slot, value, affirmed)


@pytest.mark.parametrize(
    ("text", "modality"),
    [
        ("I live in Rome", "stated"),
        ("Do I live in Rome?", "question"),
        ("If I lived in Rome I would eat pasta", "hypothetical"),
        ("I might move to Rome", "possible"),
        ("I want to move to Rome", "wish"),
        ("I'm going to move to Rome", "plan"),
        ("My wife says that I like tea", "reported"),
        ("我想搬到上海", "plan"),
        ("我喜欢茶吗？", "question"),
        ("如果我住在巴黎就好了", "hypothetical"),
    ],
)
def test_modality(text: str, modality: str) -> None:
    assert claim(text).modality == modality


@pytest.mark.parametrize(
    ("text", "tense", "interval"),
    [
        ("I moved to Munich last month", "present", Interval(date(2026, 4, 1))),
        ("I've lived in Berlin since March 2020", "present", Interval(date(2020, 3, 1))),
        ("I've lived in Berlin for 5 years", "present", Interval(date(2021, 5, 13))),
        ("I lived in Paris from 2015 to 2019", "past", Interval(date(2015, 1, 1), date(2020, 1, 1))),
        ("I used to live in Paris", "past", Interval(None, DAY)),
        ("I have worked at Siemens", "past", Interval(None, DAY)),
        ("I've never smoked", "present", Interval()),
        ("我去年搬到了上海", "present", Interval(date(2025, 1, 1))),
        ("我以前住在柏林", "past", Interval(None, DAY)),
    ],
)
def test_tense_and_validity(text: str, tense: str, interval: Interval) -> None:
    found = claim(text)
    assert (found.tense, found.time) == (tense, interval)


def test_several_claims_of_one_sentence() -> None:
    found = claims_of("I'm vegetarian and allergic to nuts, but I love tea and coffee but not decaf", DAY)

    assert [(item.slot, item.value, item.affirmed) for item in found] == [
        ("diet", "vegetarian", True),
        ("allergy", "nut", True),
        ("preference", "tea", True),
        ("preference", "coffee", True),
        ("preference", "decaf", False),
    ]


def test_a_list_of_states() -> None:
    claims = claims_of("I'm a vegetarian, severely allergic to nuts.", date(2026, 5, 13))
    assert {(claim.base_slot, claim.value) for claim in claims} == {("diet", "vegetarian"), ("allergy", "nut")}


def test_what_is_presupposed() -> None:
    implied = [item for item in claims_of("My daughter started school", DAY) if item.is_implied]
    assert [(item.slot, item.value) for item in implied] == [("family", "daughter")]


@pytest.mark.parametrize(
    ("phrase", "value", "concepts"),
    [
        ("a strong black coffee", "coffee", {"coffee"}),
        ("coffee table", "coffee table", set()),
        ("a cup of decaf", "decaf", {"decaf"}),
        ("a peanut butter sandwich", "sandwich", {"sandwich", "peanut_butter"}),
        ("toast with peanut butter", "toast", {"toast", "peanut_butter"}),
        ("lactose-free milk", "milk without lactose", {"milk"}),
        ("pistachios", "pistachio", {"pistachio"}),
        ("花生酱", "peanut_butter", {"peanut_butter"}),
    ],
)
def test_things(phrase: str, value: str, concepts: set[str]) -> None:
    assert (thing(phrase).value, thing(phrase).concepts) == (value, frozenset(concepts))


def test_what_contains_what() -> None:
    lexicon = load_lexicon()
    for part, whole in (("caffeine", "coffee"), ("caffeine", "tea"), ("caffeine", "cola"), ("peanut", "peanut_butter")):
        assert part in lexicon.closure(whole)
    assert "caffeine" not in lexicon.closure("decaf")
    assert {frame.slot.name for frames in load_slots().frames.values() for frame in frames} <= set(load_slots().by_name)


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("10 mg", Quantity(10, "mass")),
        ("0.01 g", Quantity(10, "mass")),
        ("两百毫克", Quantity(200, "mass")),
        ("5 feet", None),
        ("twenty-five minutes", Quantity(25, "time")),
        ("$50k", Quantity(50_000, "usd")),
        ("百分之五", Quantity(5, "share")),
        ("1,200 euros", Quantity(1200, "eur")),
    ],
)
def test_measures(text: str, quantity: Quantity | None) -> None:
    found = measures(text)
    assert found[0][0].equals(quantity) if quantity else found == [], found


@pytest.mark.parametrize(
    ("text", "times_a_week"),
    [
        ("twice a day", 14),
        ("3 cups a week", 3),
        ("three cups of tea a day", 21),
        ("daily", 7),
        ("每天两次", 14),
        ("每周三次", 3),
    ],
)
def test_frequencies(text: str, times_a_week: float) -> None:
    found = frequency(text)
    assert found is not None
    assert found[0] == times_a_week


@given(st.integers(0, 99_999))
def test_chinese_numerals(number: int) -> None:
    """Written out by the rules of the numerals, read back."""
    digits = "零一二三四五六七八九"
    text, rest, zero = "", number, False
    for power, name in ((10_000, "万"), (1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, rest = divmod(rest, power)
        if digit:
            text += ("零" if zero else "") + digits[digit] + name
            zero = False
        elif text and rest:
            zero = True
    assert number_of(text or "零") == number


@given(st.dates(date(1990, 1, 1), date(2090, 12, 31)))
def test_iso_dates_are_read_as_they_are(day: date) -> None:
    found = find_time(f"on {day.isoformat()} it happened", DAY)
    assert found is not None
    assert found.interval.start == day


@given(st.text(max_size=80))
def test_any_text_is_read_and_quotes_are_where_they_say(text: str) -> None:
    for statement in statements(text, DAY):
        assert text[statement.start : statement.end] == statement.quote
        for found in statement.claims:
            assert Claim.from_document(found.document()).key() == found.key()


@pytest.mark.parametrize("aside", ["As I said", "as I already mentioned before", "By the way", "FYI"])
def test_an_aside_is_no_statement(aside: str) -> None:
    found = statements(f"{aside}, I play the cello.", date(2026, 5, 13))
    assert [claim.value for statement in found for claim in statement.claims] == ["cello"]
