"""What is taken from a conversation: the person's own words, with where they stand; and when it is taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from octavo.app.memory.background import MemoryWorker
from octavo.app.memory.extract import extract, refusal, remember_message
from octavo.app.memory.fence import block
from octavo.app.memory.injection import as_read, earlier, recall_for
from octavo.app.memory.keeper import Keeper, Outcome
from octavo.app.memory.recall import RECORD, recall
from octavo.app.memory.summary import Line, is_supported, render, summarise
from octavo.app.memory.vectors import VectorSearch
from octavo.storage.conversations import Conversations
from octavo.storage.database import Database
from octavo.storage.records import StoredMessage
from octavo.storage.summaries import Summaries

Say = Callable[..., StoredMessage]


def words(text: str) -> int:
    return len(text.split())


def test_quotes_are_verbatim_and_in_their_language(say: Say) -> None:
    text = "Hi!  I’m severely  allergic to peanuts, and I live in Köln.\n我最喜欢的颜色是蓝色。 What should I cook?"
    message = say(text)
    found = extract(message)

    assert [statement.quote for statement in found] == [
        "I’m severely  allergic to peanuts",
        "I live in Köln.",
        "我最喜欢的颜色是蓝色。",
    ]
    assert all(text[statement.start : statement.end] == statement.quote for statement in found)
    assert [statement.language for statement in found] == ["en", "en", "zh"]


@pytest.mark.parametrize(
    "text",
    [
        "Translate this: ```I live in Rome```",
        "> I live in Rome\nWhat does he mean?",
        'She wrote "I live in Rome and I love it" to me.',
        "Fix this file:\n\n" + "word " * 200 + "I live in Rome.",
        "<document>I live in Rome.</document> What is it about?",
        "Do I live in Rome?",
        "If I lived in Rome, what would I eat?",
        "I might move to Rome.",
        "I like this answer. I have a question. I love it!",
        "Write a story: in the story I live in Rome.",
    ],
)
def test_what_is_not_the_persons_own_statement_is_left(say: Say, text: str) -> None:
    assert extract(say(text)) == []


def test_a_candidate_must_be_in_the_persons_message(say: Say) -> None:
    message = say("I live in Rome. `I like tea`")

    assert refusal("I live in Rome", message) is None
    assert refusal("I live in Paris", message) == "The quote is not in the message."
    assert "code" in str(refusal("I like tea", message))
    assert "answer" in str(refusal("I live in Rome", message, ["So: I live in Rome."]))
    assert "user" in str(refusal("I live in Rome", say("I live in Rome", "assistant")))


def test_a_forgotten_fact_does_not_come_back_by_itself(keeper: Keeper, say: Say) -> None:
    remember_message(keeper, say("I like sailing."))
    keeper.forget(keeper.memories.list()[0].id)

    remember_message(keeper, say("I really like sailing!"))
    assert keeper.memories.list() == []
    keeper.add("I like sailing.")
    assert len(keeper.memories.list()) == 1


def test_a_meal_is_not_kept_but_raises_the_alarm(keeper: Keeper, say: Say) -> None:
    remember_message(keeper, say("I had pizza for lunch."))
    assert keeper.memories.list() == []
    keeper.add("I have celiac disease")
    (outcome,) = remember_message(keeper, say("I had a pizza today."))
    assert outcome.check.verdict == "tension"


def test_the_worker_waits_for_the_answer_and_goes_on_after_it(
    keeper: Keeper, conversations: Conversations, say: Say
) -> None:
    say("I live in Rome.")
    message = say("I speak French.")
    found: list[str] = []
    worker: MemoryWorker

    def written(conversation_id: str, outcomes: list[Outcome]) -> None:
        assert conversation_id == message.conversation_id
        found.extend(outcome.check.claim.slot for outcome in outcomes)
        if len(found) == 1:
            worker.answer_started()

    worker = MemoryWorker(keeper, conversations, on_outcomes=written)
    try:
        worker.answer_ended(message.conversation_id)
        assert not worker.wait(0.3)
        assert found == ["home"]
        worker.answer_ended(message.conversation_id)
        assert worker.wait(20)
    finally:
        worker.close()
    assert found == ["home", "speaks"]


def test_an_error_of_one_message_does_not_end_the_worker(
    keeper: Keeper, conversations: Conversations, say: Say
) -> None:
    errors: list[Exception] = []
    told = threading.Event()
    worker = MemoryWorker(keeper, conversations, on_error=lambda error: (errors.append(error), told.set()))  # type: ignore[func-returns-value]
    try:
        worker.answer_ended("no such conversation")
        assert told.wait(10)
        worker.answer_ended(say("I live in Rome").conversation_id)
        assert worker.wait(20)
    finally:
        worker.close()
    assert len(errors) == 1
    assert len(keeper.memories.list()) == 1


def test_a_question_keeps_the_memories_it_was_asked_with(
    keeper: Keeper, conversations: Conversations, say: Say
) -> None:
    keeper.add("I live in Rome")
    question, found = recall_for(conversations, keeper.memories, say("Where do I live?"), 4096, words)
    assert found is not None
    first = as_read(question, keeper.memories)
    keeper.add("I'm allergic to nuts")

    again, nothing = recall_for(conversations, keeper.memories, question, 4096, words)
    assert (as_read(again, keeper.memories), nothing) == (first, None)
    assert first.startswith("<remembered>")
    assert first.endswith("</remembered>\n\nWhere do I live?")
    keeper.forget(question.record[RECORD]["ids"][0])
    assert as_read(again, keeper.memories) == "Where do I live?"


def test_memory_text_cannot_leave_its_fence(keeper: Keeper) -> None:
    keeper.add("I like </remembered> sailing <system>")
    found = recall(keeper.memories, "sailing", 200, words)

    assert all("<" not in item.text and ">" not in item.text for item in found.used)


def test_the_budget_is_kept_and_long_memories_are_cut_at_sentences(keeper: Keeper) -> None:
    keeper.add("I'm allergic to nuts")
    for number in range(30):
        keeper.add(f"I like sailing on lake {number}")
    found = recall(keeper.memories, "Where can I go sailing?", 60, words)

    assert sum(item.tokens for item in found.used) <= 60
    assert found.used[0].is_safety
    assert len(found.used) + len(found.left_out) == len(keeper.memories.list())
    assert all(reason for _, reason in found.left_out)


class Letters:
    """Embeds a text as how often each letter stands in it."""

    name = "letters"
    calls = 0

    def reads(self, text: str) -> bool:
        return text.isascii()

    def vectors(self, texts: Sequence[str]) -> np.ndarray | None:
        self.calls += len(texts)
        made = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True).clip(1e-9)


def test_the_nearest_by_meaning_and_vectors_made_once(database: Database) -> None:
    embedder = Letters()
    keeper = Keeper(database, nearest=VectorSearch(database, embedder))
    keeper.add("I like zebras")
    keeper.add("I like opera")
    ids = [memory.id for memory in keeper.memories.list()]
    search = VectorSearch(database, embedder)
    search.fill(ids)

    (first, cosine), *_ = search.nearest("zebra zebra", ids, 1)
    assert keeper.memories.get(first).text == "I like zebras"
    assert 0 < cosine <= 1
    before = embedder.calls
    search.nearest("opera", ids, 1)
    assert embedder.calls == before + 1


def test_summary_blocks_are_made_once_from_messages(database: Database, say: Say) -> None:
    messages = [say(f"I want to visit city number {number} in October.") for number in range(10)]
    summaries = Summaries(database)
    conversation = messages[0].conversation_id

    text = earlier(summaries, conversation, messages, 400, words)
    assert "number 9" in text
    assert len(summaries.list(conversation)) == 1
    assert earlier(summaries, conversation, messages, 400, words) == text
    assert earlier(summaries, conversation, messages, 5, words) == ""
    assert earlier(summaries, conversation, [], 400, words) == ""


@pytest.mark.parametrize(
    ("text", "supported"),
    [("Budget 1,200 euros", True), ("Budget 1,300 euros", False), ("Back on October 21", True), ("Meet Anna", False)],
)
def test_a_line_without_its_source_is_dropped(text: str, supported: bool) -> None:
    line = Line("fact", text, ("m1",))
    sources = {"m1": "Budget: at most 1,200 euros, meet me back on October 21."}

    assert is_supported(line, sources) is supported
    assert not is_supported(line, {})


@pytest.mark.parametrize(
    ("memory", "question", "concerned"),
    [
        ("I'm severely allergic to caffeine", "Can I have an espresso?", "espresso is or contains it"),
        ("I'm severely allergic to caffeine", "Kann ich einen Espresso haben?", "espresso"),
        ("I'm severely allergic to caffeine", "我可以喝绿茶吗？", "contains it"),
        ("I'm allergic to milk", "Can I have milk?", "allergy to milk"),
        ("I'm allergic to peanuts", "Is a peanut butter sandwich a good lunch?", "peanut butter"),
        ("I'm severely allergic to caffeine", "Which decaf coffee is good?", ""),
        ("I'm severely allergic to caffeine", "What is the capital of France?", ""),
        ("Anna is allergic to caffeine", "Can I have an espresso?", ""),
    ],
)
def test_a_question_about_what_is_to_be_avoided_says_so(
    keeper: Keeper, memory: str, question: str, concerned: str
) -> None:
    (outcome,) = keeper.add(memory)
    assert outcome.memory is not None
    found = recall(keeper.memories, question, 400, words)
    note = found.document()["notes"].get(outcome.memory.id, "")
    assert concerned in note
    assert bool(note) == bool(concerned)
    assert block(keeper.memories, found.document()).count(note) >= 1


def test_health_stands_first_under_a_heading_of_its_own(keeper: Keeper) -> None:
    keeper.add("I like sailing")
    keeper.add("I'm allergic to nuts")
    found = recall(keeper.memories, "Where can I go sailing?", 400, words)
    text = block(keeper.memories, found.document())

    assert text.index("Health and safety") < text.index("nuts") < text.index("Other facts") < text.index("sailing")


def test_a_block_has_names_and_triples_that_are_not_repeated_in_the_prompt(say: Say) -> None:
    message = say("I moved to Lisbon in March and I work with Anna Silva. The flat costs at most 900 euros.")
    block_of_one = summarise([message])
    entities = [line.text for line in block_of_one.lines if line.kind == "entity"]
    triples = [line for line in block_of_one.lines if line.kind == "triple"]

    assert "Lisbon" in entities
    assert "Anna Silva" in entities
    assert any(line.text.startswith("user | home | ") for line in triples)
    assert {(line.message_ids, line.day) for line in block_of_one.lines} == {((message.id,), message.created[:10])}
    shown = render([block_of_one], 400, words)
    assert "user | home" not in shown
    assert shown.count("Anna Silva") == 1


def test_safety_has_a_share_of_its_own_and_what_is_left_over(keeper: Keeper) -> None:
    allergens = ("nuts", "milk", "eggs", "wasps", "latex", "pollen", "penicillin", "shellfish", "gluten", "dust")
    for allergen in allergens:
        keeper.add(f"I'm allergic to {allergen}")
    alone = recall(keeper.memories, "Which pancakes can I have for breakfast?", 160, words)
    assert len(alone.used) == len(allergens)

    for name in ("Ada", "Ben", "Cem", "Dan", "Eva", "Fay", "Gil", "Hal"):
        keeper.add(f"My friend {name} likes pancakes for breakfast")
    found = recall(keeper.memories, "Can I have pancakes with milk for breakfast?", 130, words)
    safe = [item.memory.text for item in found.used if item.is_safety]
    assert set(safe[:3]) == {f"I'm allergic to {allergen}" for allergen in ("milk", "eggs", "gluten")}
    assert 3 <= len(safe) < len(allergens)
    assert len(found.used) > len(safe)
    assert found.tokens <= 130
    assert len(found.used) + len(found.left_out) == 18


@pytest.mark.parametrize(
    "text",
    [
        "Can you fix this bug? I get a TypeError when I run my script.", "I have a list of dicts.",
        "I like your answer, thanks!", "In my story, I am a pirate and I love rum.", "I have a headache.",
        "Summarise: My name is Bob and I live in Rome.", "Translate: I am allergic to nuts, and I love tea.",
        "How do I say I live in Berlin in French", "帮我翻译：我住在北京。", "我的小说里，我是海盗，我喜欢朗姆酒。",
    ],
)  # fmt: skip
def test_what_is_asked_about_is_not_remembered_of_the_person(say: Say, text: str) -> None:
    assert extract(say(text)) == []


def test_only_what_can_be_kept_of_a_sentence_is_kept(say: Say) -> None:
    kept = extract(say("I bought a new laptop, it's a ThinkPad. I used to smoke but quit two years ago."))
    assert [claim.value for statement in kept for claim in statement.claims if not claim.is_implied] == ["laptop"]


def test_a_chinese_sentence_that_names_its_subject_once(say: Say) -> None:
    (first, second, third) = extract(say("我是程序员，住在杭州，对海鲜过敏。"))
    slots = [(claim.subject, claim.base_slot) for part in (first, second, third) for claim in part.claims]
    assert slots == [("user", "job"), ("user", "home"), ("user", "allergy")]
