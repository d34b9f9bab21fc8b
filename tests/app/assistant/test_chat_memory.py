"""A chat with a memory: what a question is asked with, what is read after the answer, what the record says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from octavo.app.assistant.chat import AnswerDone, Chat
from octavo.app.memory.recall import RECORD
from octavo.app.memory.service import ChatMemory, MemoryFailed, MemoryNews
from octavo.app.settings import Settings
from octavo.engine.errors import ModelFileError
from octavo.storage.conversations import Conversations
from octavo.storage.database import Database
from octavo.storage.paths import Paths

SEED = "I'm severely allergic to caffeine."


class Told(list[MemoryNews | MemoryFailed]):
    @property
    def verdicts(self) -> list[str]:
        return [outcome.check.verdict for news in self if isinstance(news, MemoryNews) for outcome in news.outcomes]


@pytest.fixture
def told() -> Told:
    return Told()


def opened(database: Database, conversations: Conversations, told: Told, mode: Any = "auto") -> ChatMemory:
    return ChatMemory(database, conversations, Paths.from_environment(), mode, told.append)


@pytest.fixture
def memory(database: Database, conversations: Conversations, told: Told, octavo_home: Path) -> Iterator[ChatMemory]:
    memory = opened(database, conversations, told)
    yield memory
    memory.close()


@pytest.fixture
def chat(assistant: Any, conversations: Conversations, settings: Settings, memory: ChatMemory) -> Chat:
    return Chat(assistant, conversations, settings, "fake", memory)


def say(chat: Chat, memory: ChatMemory, conversation_id: str, text: str) -> AnswerDone:
    *_, done = chat.turn(conversation_id, text)
    assert isinstance(done, AnswerDone)
    assert memory.wait(20)
    return done


def shown(engine: Any) -> str:
    return "".join({1: "<", 2: ">"}.get(token_id, chr(token_id)) for token_id in engine.prompts[-1])


def test_the_allergy_of_one_conversation_alarms_in_another_and_is_recalled_in_a_third(
    chat: Chat, memory: ChatMemory, conversations: Conversations, engine: Any, told: Told
) -> None:
    say(chat, memory, conversations.create().id, SEED)
    say(chat, memory, conversations.create().id, "I like coffee.")

    assert told.verdicts == ["compatible", "tension"]
    assert {item.text for item in memory.memories.list()} == {SEED, "I like coffee."}
    (conflict,) = memory.memories.conflicts(only_open=True)
    assert memory.memories.get(conflict.old_id).text == SEED
    assert memory.memories.get(conflict.old_id).pinned

    done = say(chat, memory, conversations.create().id, "What should I drink this morning?")
    assert "severely allergic to caffeine" in shown(engine)
    used = memory.used(done.message)
    assert used is not None
    assert SEED in [item.text for item in used.memories]
    assert used.tokens > 0


def test_the_prompt_only_grows_and_its_pages_are_reused(
    chat: Chat, memory: ChatMemory, conversations: Conversations, engine: Any
) -> None:
    say(chat, memory, conversations.create().id, SEED)
    conversation_id = conversations.create().id
    prompts = []
    for question in ("What should I drink?", "And with breakfast?", "What about the evening, with friends?"):
        say(chat, memory, conversation_id, question)
        prompts.append(engine.prompts[-1])
        assert shown(engine).count("<remembered>") == len(prompts)

    for earlier, later in pairwise(prompts):
        assert later[: len(earlier)] == earlier
    assert engine.reused[-2] >= len(prompts[0]) // 32 * 32
    assert engine.reused[-1] >= len(prompts[1]) // 32 * 32


def test_the_record_says_what_was_recalled_and_what_was_left_out(
    chat: Chat, memory: ChatMemory, conversations: Conversations, settings: Settings
) -> None:
    memory.keeper.add(SEED)
    for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        memory.keeper.add(f"My friend {name}{name.lower()}osa likes to go sailing on the lake.")
    memory.keeper.add("My favourite composer is Bach.")
    done = say(chat, memory, conversations.create().id, "Where can I go sailing?")

    record = done.message.record[RECORD]
    question = conversations.message(str(done.message.parent_id))
    assert record == question.record[RECORD]
    assert record["tokens"] <= 512
    left = record["left_out"]
    assert len(record["ids"]) + len(left["over budget"]) + left["not relevant"] == 28
    assert memory.memories.get(record["ids"][0]).text == SEED


def test_a_question_that_nearly_fills_the_context_goes_without_memories(
    chat: Chat, memory: ChatMemory, conversations: Conversations, engine: Any
) -> None:
    memory.keeper.add(SEED)
    engine.max_context = 400
    done = say(chat, memory, conversations.create().id, "drink " * 43)

    assert done.message.status == "complete"
    assert "remembered" not in shown(engine)
    assert done.message.record[RECORD]["left_out"] == {"over budget": [memory.memories.list()[0].id]}


def test_what_left_the_window_is_summed_up_and_stays_the_same_until_the_next_cut(
    chat: Chat, memory: ChatMemory, conversations: Conversations, engine: Any
) -> None:
    engine.max_context = 2400
    conversation_id = conversations.create().id
    say(chat, memory, conversation_id, "My budget is 7,340 euros and I must be back in Oslo by 14 May.")
    summaries: list[str] = []
    for number in range(24):
        done = say(
            chat, memory, conversation_id, f"Tell me about harbour number {number}, {'and its boats, ' * 6}please."
        )
        if "summary" in done.message.record:
            assert done.message.record["window"]["prompt_tokens"] == len(engine.prompts[-1])
            assert len(engine.prompts[-1]) <= 2400 - 100 - 16
            summaries.append(shown(engine).split("Earlier in this conversation:")[1].split("Tell me")[0])
            assert done.message.record["summary"]["messages"] > 0
    assert len(summaries) > 5
    assert all("7,340" in text and "14 May" in text for text in summaries)
    assert len(set(summaries)) < len(summaries)
    assert max(engine.reused) > 1000


@pytest.mark.parametrize("mode", ["manual", "off"])
def test_what_was_said_while_nothing_was_to_be_read_is_not_read_later(
    assistant: Any, database: Database, conversations: Conversations, settings: Settings, told: Told, mode: str,
    octavo_home: Path,
) -> None:  # fmt: skip
    conversation_id = conversations.create().id
    for used, text in ((mode, SEED), ("auto", "I live in Rome.")):
        memory = opened(database, conversations, told, used)
        try:
            say(Chat(assistant, conversations, settings, "fake", memory), memory, conversation_id, text)
        finally:
            memory.close()
    assert [item.text for item in memory.memories.list()] == ["I live in Rome."]


def test_off_recalls_nothing_and_manual_does(
    assistant: Any, database: Database, conversations: Conversations, settings: Settings, told: Told, octavo_home: Path
) -> None:
    seen = {}
    for mode in ("off", "manual"):
        memory = opened(database, conversations, told, mode)
        memory.keeper.add(SEED)
        try:
            chat = Chat(assistant, conversations, settings, "fake", memory)
            done = say(chat, memory, conversations.create().id, "What should I drink?")
        finally:
            memory.close()
        seen[mode] = done.message.record.get(RECORD)
    assert seen["off"] is None
    assert len(seen["manual"]["ids"]) == 1


def test_a_message_that_an_earlier_run_did_not_get_to_is_read_at_the_next_start(
    database: Database, conversations: Conversations, told: Told, octavo_home: Path
) -> None:
    first = opened(database, conversations, told)
    conversation_id = conversations.create().id
    conversations.add_message(conversation_id, None, "user", "Hello.")
    with first.giving_way(conversation_id):
        pass
    assert first.wait(20)
    first.close()
    conversations.add_message(conversation_id, conversations.get(conversation_id).leaf_id, "user", SEED)
    second = opened(database, conversations, told)
    try:
        assert second.wait(20)
    finally:
        second.close()
    assert [item.text for item in second.memories.list()] == [SEED]


def test_a_fault_of_the_memory_costs_no_answer(
    chat: Chat, memory: ChatMemory, conversations: Conversations, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("torn")

    monkeypatch.setattr("octavo.app.memory.injection.recall", torn)
    done = say(chat, memory, conversations.create().id, "What should I drink?")

    assert done.message.status == "complete"
    (failure,) = told
    assert isinstance(failure, MemoryFailed)
    assert "torn" in failure.error


def test_a_model_that_is_refused_leaves_the_rules(
    database: Database, conversations: Conversations, told: Told, octavo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Paths.from_environment().models_dir / "nli"
    folder.mkdir(parents=True)

    def refuse(path: Path) -> None:
        raise ModelFileError("The model is refused.")

    monkeypatch.setattr("octavo.engine.nli.open_cross_encoder", refuse)
    memory = opened(database, conversations, told)
    errors: list[Exception] = []
    try:
        assert memory.checked_by == "rules and nli"
        for text in ("The kitchen smells of cinnamon.", "The kitchen smells of nothing at all.", "I live in Rome."):
            memory.remember(text, errors.append)
        assert memory.wait(20)
    finally:
        memory.close()
    assert errors == []
    assert memory.checked_by == "rules only"
    assert [news.error for news in told if isinstance(news, MemoryFailed)] == [
        "The model is refused. Until the next start statements are checked by rules only."
    ]
    assert len(memory.memories.list()) == 3


def test_looking_at_a_prompt_recalls_nothing_for_an_old_question(
    assistant: Any, chat: Chat, memory: ChatMemory, conversations: Conversations, settings: Settings
) -> None:
    conversation_id = conversations.create().id
    before_memory = Chat(assistant, conversations, settings, "fake")
    *_, done = before_memory.turn(conversation_id, "What should I drink?")
    memory.keeper.add(SEED)

    assert "remembered" not in "".join(map(chr, chat.prompt_ids(conversation_id)))
    assert RECORD not in conversations.message(str(done.message.parent_id)).record
