"""Faults that people reported of other memories, each as it would show here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from octavo.app.memory.extract import remember_message
from octavo.app.memory.fence import with_memories
from octavo.app.memory.keeper import Keeper
from octavo.app.memory.recall import FLOOR, recall, strength
from octavo.app.memory.summary import render, summarise
from octavo.storage.records import StoredMessage

Say = Callable[..., StoredMessage]
Remembered = Callable[[], set[str]]


def words(text: str) -> int:
    return len(text.split())


def test_the_allergy_is_not_overwritten_by_a_liking(keeper: Keeper, remembered: Remembered) -> None:
    keeper.add("the user is severely allergic to caffeine")
    (outcome,) = keeper.add("the user likes coffee")

    assert outcome.check.verdict == "tension"
    assert outcome.check.checked_by == "rules"
    assert remembered() == {"the user is severely allergic to caffeine", "the user likes coffee"}
    assert {memory.text: memory.pinned for memory in keeper.memories.list()} == {
        "the user is severely allergic to caffeine": True,
        "the user likes coffee": False,
    }
    assert [conflict.state for conflict in keeper.memories.conflicts(only_open=True)] == ["open"]


def test_love_and_then_hate_leaves_the_hate(keeper: Keeper, remembered: Remembered) -> None:
    """https://github.com/mem0ai/mem0/issues/4536"""
    keeper.add("I love cheese")
    (outcome,) = keeper.add("I hate cheese")

    assert outcome.check.verdict == "contradiction"
    assert remembered() == {"I hate cheese"}


def test_the_same_fact_twice_stays(keeper: Keeper, say: Say, remembered: Remembered) -> None:
    """https://github.com/mem0ai/mem0/issues/1674"""
    for text in ("I like hiking.", "As I said, I like hiking."):
        remember_message(keeper, say(text))

    assert remembered() == {"I like hiking."}
    (memory,) = keeper.memories.list()
    assert len(keeper.memories.evidence(memory.id)) == 2


def test_a_friends_dislike_is_the_friends(keeper: Keeper, say: Say) -> None:
    """https://github.com/mem0ai/mem0/issues/1528"""
    remember_message(keeper, say("I like mushrooms. My friend Anna hates mushrooms."))

    assert {(memory.subject, memory.claim["affirmed"]) for memory in keeper.memories.list()} == {
        ("user", True),
        ("person:anna", False),
    }
    assert not keeper.memories.conflicts()


def test_five_years_become_six(keeper: Keeper, remembered: Remembered) -> None:
    """https://github.com/getzep/graphiti/issues/630"""
    keeper.add("I have 5 years of experience with Python")
    (outcome,) = keeper.add("I have 6 years of experience with Python")

    assert outcome.check.verdict == "update"
    assert remembered() == {"I have 6 years of experience with Python"}


def test_a_new_dose_is_no_duplicate_and_asks(keeper: Keeper, remembered: Remembered) -> None:
    """TrueMemory issue 576"""
    keeper.add("I take 10 mg of lisinopril")
    (outcome,) = keeper.add("I take 5 mg of lisinopril")

    assert (outcome.check.verdict, outcome.check.finding.confirm) == ("update", True)
    assert remembered() == {"I take 5 mg of lisinopril"}
    assert [conflict.verdict for conflict in keeper.memories.conflicts(only_open=True)] == ["update"]


def test_unrelated_facts_are_not_retired(keeper: Keeper, remembered: Remembered) -> None:
    """https://github.com/getzep/graphiti/issues/1728"""
    facts = {"I live in Berlin", "I have a dog", "I speak French", "I work at Siemens", "I like jazz"}
    for fact in sorted(facts):
        keeper.add(fact)
    keeper.add("I have a cat")
    keeper.add("I moved to Munich")

    assert remembered() == facts - {"I live in Berlin"} | {"I have a cat", "I moved to Munich"}


def test_there_and_back_again_ends_where_it_began(keeper: Keeper, remembered: Remembered) -> None:
    """tagent-core issue 78"""
    for text in ("I live in Berlin", "I live in Munich", "I live in Berlin"):
        keeper.add(text)

    homes = [memory for memory in keeper.memories.list() if memory.valid_to is None]
    assert remembered() == {"I live in Berlin"}
    assert len(homes) == 1


def test_what_an_answer_says_is_not_the_users(keeper: Keeper, say: Say, remembered: Remembered) -> None:
    """synaplan issue 438"""
    answer = say("I live in a data centre and I love electricity.", "assistant")
    remember_message(keeper, answer)
    remember_message(keeper, say("I live in a data centre and I love electricity."), [answer.text])

    assert remembered() == set()


def test_recalled_text_is_not_stored_again(keeper: Keeper, say: Say) -> None:
    """https://github.com/mem0ai/mem0/issues/4573"""
    keeper.add("I like sailing")
    found = recall(keeper.memories, "What do I like?", 200, words)
    before = keeper.memories.list()

    remember_message(keeper, say(with_memories("Thanks!", keeper.memories, found.document())))

    assert keeper.memories.list() == before
    assert len(keeper.memories.evidence(before[0].id)) == 1


def test_an_allergy_is_not_outranked_by_trivia(keeper: Keeper) -> None:
    """Anticipy issue 25"""
    keeper.add("I am allergic to peanuts")
    for place in range(60):
        keeper.add(f"My favourite dish number {place} is noodles with sauce {place}")

    found = recall(keeper.memories, "What dish with noodles should I cook?", 80, words)

    assert found.used[0].memory.text == "I am allergic to peanuts"
    assert len(found.used) > 1
    assert found.left_out


def test_a_summary_keeps_goals_constraints_and_numbers(say: Say) -> None:
    """https://github.com/google/adk-go/pull/1431"""
    messages = [
        say("Hi! I want to plan a trip to Lisbon in October."),
        say("Nice, what is your budget?", "assistant"),
        say("At most 1,200 euros, and I must be back by October 21. Anyway, how are you?"),
    ]
    block = summarise(messages)
    text = render([block], 200, words)

    for kept in ("Lisbon", "1,200", "October 21"):
        assert kept in text
    assert {source for line in block.lines for source in line.message_ids} == {messages[0].id, messages[2].id}
    assert "how are you" not in text


def test_years_of_silence_fade_but_never_erase(keeper: Keeper) -> None:
    keeper.add("I like sailing")
    (memory,) = keeper.memories.list()
    said = date.fromisoformat(memory.said[:10])
    assert strength(memory, said) == 1.0
    assert strength(memory, said + timedelta(days=180)) == 0.5
    assert strength(memory, said + timedelta(days=20_000)) == FLOOR
