"""A turn of a conversation: what is saved when, what the model is shown, what is left of an answer that broke off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant import budget, history
from octavo.app.assistant import draft as draft_module
from octavo.app.assistant.assistant import Assistant
from octavo.app.assistant.chat import (
    AnswerDone,
    AnswerStarted,
    AnswerText,
    Chat,
    UserSaved,
    save_question,
    title_of,
)
from octavo.app.assistant.history import set_system
from octavo.app.assistant.usage import describe_record
from octavo.app.settings import Settings, load_settings
from octavo.engine.config import GenerationPolicy
from octavo.storage.conversations import Conversations, StoredMessage


@pytest.fixture
def conversation_id(conversations: Conversations) -> str:
    return conversations.create().id


def finished(events: Iterable[Any]) -> AnswerDone:
    """The last event, which every answer ends with."""
    *_, last = events
    assert isinstance(last, AnswerDone)
    return last


def shown(engine: Any) -> str:
    """The newest prompt as text; its control tokens as < and >."""
    return "".join({1: "<", 2: ">"}.get(token_id, chr(token_id)) for token_id in engine.prompts[-1])


def test_a_turn_tells_what_happens_in_order_and_saves_it(
    chat: Chat, conversations: Conversations, conversation_id: str
) -> None:
    saved, started, *texts, done = chat.turn(conversation_id, "What is it?\nSay more.")
    assert isinstance(saved, UserSaved)
    assert isinstance(started, AnswerStarted)
    assert isinstance(done, AnswerDone)
    assert started.left_out == ()
    assert started.prompt_tokens == done.message.record["usage"]["prompt_tokens"] < started.context == 4096
    assert "".join(text.text for text in texts) == "A fine answer." == done.message.text
    assert [text.num_tokens for text in texts] == list(range(1, 15))
    assert conversations.path(conversation_id) == [saved.message, done.message]
    assert done.message.token_ids == tuple(map(ord, "A fine answer."))
    assert (done.message.status, done.message.model) == ("complete", "fake")
    assert done.message.record["finish_reason"] == "stop"
    assert done.message.record["policy"]["max_tokens"] == 100
    assert conversations.get(conversation_id).title == "What is it?"


def test_the_pages_of_an_answer_are_the_conversations(chat: Chat, engine: Any, conversation_id: str) -> None:
    list(chat.turn(conversation_id, "Hello"))
    assert engine.owners == [conversation_id]


def test_an_answer_keeps_where_it_was_read(chat: Chat, conversation_id: str) -> None:
    record = finished(chat.turn(conversation_id, "Hello")).message.record
    assert "device" not in record
    chat.assistant.budgets = SimpleNamespace(device="cuda")  # type: ignore[assignment]
    record = finished(chat.turn(conversation_id, "Hello again")).message.record
    assert record["device"] == "cuda"
    reused = record["usage"]["reused_from"]["device"]
    assert describe_record(record) == (
        f"{reused} tokens from the GPU, {record['usage']['computed_tokens']} read again, 0.2 s"
    )


def test_the_question_is_saved_before_the_engine_is_asked(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    found: list[StoredMessage] = []

    def fail() -> None:
        found.extend(conversations.path(conversation_id))
        raise RuntimeError("no engine")

    engine.before_submit = fail
    with pytest.raises(RuntimeError, match="no engine"):
        list(chat.turn(conversation_id, "Hello"))
    assert [(message.role, message.text, message.status) for message in found] == [
        ("user", "Hello", "complete"),
        ("assistant", "", "streaming"),
    ]
    assert [message.status for message in conversations.path(conversation_id)] == ["complete", "error"]


def at_step(engine: Any, number: int, act: Callable[[], None]) -> None:
    engine.before_step = lambda: act() if engine.steps == number else None


def crash() -> None:
    raise RuntimeError("broken")


def test_a_crash_of_the_engine_keeps_the_answer_so_far(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    at_step(engine, 7, crash)
    events: list[Any] = []
    with pytest.raises(RuntimeError, match="broken"):
        collect(chat.turn(conversation_id, "Hello"), events)
    message = conversations.path(conversation_id)[-1]
    assert events[-1] == AnswerDone(message, None)
    assert (message.text, message.status) == ("A fine", "error")
    assert message.record["error"] == "RuntimeError: broken"
    assert message.token_ids == tuple(map(ord, "A fine"))


def collect(source: Iterable[Any], events: list[Any]) -> None:
    """Append every event to `events`, up to the error that ends them."""
    events += source


def test_an_error_the_engine_reports_keeps_the_answer_so_far(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    engine.error = "OutOfMemoryError: no room"
    done = finished(chat.turn(conversation_id, "Hello"))
    assert (done.message.text, done.message.status) == ("A fine answer.", "error")
    assert done.message.record["error"] == engine.error
    assert conversations.path(conversation_id)[-1] == done.message


def test_a_cancelled_answer_is_kept(
    chat: Chat, engine: Any, conversation_id: str, conversations: Conversations
) -> None:
    done = finished(chat.turn(conversation_id, "Hello", is_cancelled=lambda: engine.steps == 3))
    assert (done.message.text, done.message.status) == ("A f", "cancelled")
    assert engine.steps == 4, "one step more, in which nothing is computed"
    assert engine.is_idle
    assert conversations.path(conversation_id)[-1] == done.message


@pytest.mark.parametrize("num_events", [2, 5])
def test_an_answer_nobody_waits_for_is_kept(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str, num_events: int
) -> None:
    events = chat.turn(conversation_id, "Hello")
    seen = [next(events) for _ in range(num_events)]
    events.close()
    message = conversations.path(conversation_id)[-1]
    assert message.text == "".join(event.text for event in seen if isinstance(event, AnswerText))
    assert message.status == "cancelled"
    finished(chat.turn(conversation_id, "Still there?"))  # the engine is free


def test_closing_after_the_end_changes_nothing(chat: Chat, conversations: Conversations, conversation_id: str) -> None:
    events = chat.turn(conversation_id, "Hello")
    while not isinstance(next(events), AnswerDone):
        pass
    events.close()
    assert conversations.path(conversation_id)[-1].status == "complete"


def test_text_is_saved_while_it_comes(
    chat: Chat, conversations: Conversations, conversation_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(draft_module.time, "monotonic", lambda: clock[0])
    unsaved = []
    text = ""
    for event in chat.turn(conversation_id, "Hello"):
        if isinstance(event, AnswerText):
            text += event.text
            message = conversations.path(conversation_id)[-1]
            assert message.status == "streaming"
            assert text.startswith(message.text)
            unsaved.append(len(text) - len(message.text))
            clock[0] += 0.2
    assert max(unsaved) <= 4, "at a token in 0.2 s, a second would be five tokens"


def test_a_second_question_goes_on_from_the_ids_of_the_first_answer(
    chat: Chat, engine: Any, conversation_id: str
) -> None:
    engine.answer = "x" * 50
    finished(chat.turn(conversation_id, "First"))
    computed = len(engine.prompts[0]) + 50
    done = finished(chat.turn(conversation_id, "Second"))
    assert engine.prompts[1][:computed] == engine.prompts[0] + [ord("x")] * 50
    assert done.answer is not None
    assert done.answer.metrics.reused_tokens == computed // 32 * 32


def test_ids_that_do_not_spell_the_text_are_not_used(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    question = conversations.add_message(conversation_id, None, "user", "Hi")
    conversations.add_message(conversation_id, question.id, "assistant", "Yes", token_ids=(5, 6), model="another")
    finished(chat.turn(conversation_id, "So?"))
    assert "<assistant\nYes>" in shown(engine)


def test_a_stop_string_is_neither_in_the_text_nor_in_the_kept_ids(
    assistant: Assistant, conversations: Conversations, engine: Any, conversation_id: str, octavo_home: Any
) -> None:
    engine.answer = "Good END more"
    chat = Chat(assistant, conversations, load_settings({"generation": {"stop": ["END"]}}), "fake")
    message = finished(chat.turn(conversation_id, "Hi")).message
    assert (message.text, message.status) == ("Good ", "complete")
    assert message.token_ids == tuple(map(ord, "Good "))


def test_regenerate_and_edit_make_branches(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    first = finished(chat.turn(conversation_id, "One")).message
    assert first.parent_id is not None
    finished(chat.turn(conversation_id, "Two"))
    engine.answer = "Another."
    again = finished(chat.regenerate(first.id)).message
    assert conversations.siblings(first.id) == [first.id, again.id]
    assert [message.text for message in conversations.path(conversation_id)] == ["One", "Another."]
    saved, *_, done = chat.edit(first.parent_id, "Uno")
    assert isinstance(saved, UserSaved)
    assert conversations.siblings(first.parent_id) == [first.parent_id, saved.message.id]
    assert [message.text for message in conversations.path(conversation_id)] == ["Uno", "Another."]
    assert isinstance(done, AnswerDone)
    assert "One" not in shown(engine)
    answered = finished(chat.regenerate(saved.message.id)).message
    assert answered.parent_id == saved.message.id


def test_a_conversation_has_its_own_system_prompt_which_an_edit_keeps(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    first = save_question(conversations, conversation_id, "Hi", system="Be brief.")
    finished(chat.answer(first))
    assert shown(engine).startswith("<system\nBe brief.>\n<user\nHi>")
    finished(chat.edit(first.id, "Hello"))
    assert shown(engine).startswith("<system\nBe brief.>\n<user\nHello>")
    set_system(conversations, conversation_id, "Be kind.")
    finished(chat.turn(conversation_id, "And now?"))
    assert shown(engine).startswith("<system\nBe kind.>\n<user\nHello>")
    set_system(conversations, conversation_id, None)
    finished(chat.turn(conversation_id, "And then?"))
    assert shown(engine).startswith("<user\nHello>")


def test_an_unanswered_question_is_asked_with_the_next(
    chat: Chat, engine: Any, conversation_id: str, conversations: Conversations
) -> None:
    engine.before_submit = crash
    with pytest.raises(RuntimeError):
        list(chat.turn(conversation_id, "One"))
    engine.before_submit = lambda: None
    finished(chat.turn(conversation_id, "Two"))
    assert shown(engine) == "<user\nOne\n\nTwo>\n<assistant\n"


def test_the_system_prompt_comes_first(
    assistant: Assistant, conversations: Conversations, engine: Any, conversation_id: str, octavo_home: Any
) -> None:
    chat = Chat(assistant, conversations, load_settings({"system": "Be brief."}), "fake")
    finished(chat.turn(conversation_id, "Hi"))
    assert shown(engine).startswith("<system\nBe brief.>\n<user\nHi>")


def test_a_question_too_long_is_refused_and_nothing_is_left_running(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str
) -> None:
    finished(chat.turn(conversation_id, "Short"))
    saved, done = chat.turn(conversation_id, "w" * 5000)
    assert isinstance(saved, UserSaved)
    assert isinstance(done, AnswerDone)
    assert done.answer is None
    assert done.message.status == "error"
    for number in ("5,019 tokens", "context of 4,096", "3,980 for it", "100 are kept", "by 1,039 tokens"):
        assert number in done.message.record["error"]
    assert len(engine.prompts) == 1, "the engine was not asked"
    assert conversations.mark_interrupted() == 0
    # The refused message does not push the others out of the next prompt, and its absence is recorded.
    after = list(chat.turn(conversation_id, "Short again"))
    assert isinstance(after[1], AnswerStarted)
    assert [item.message_id for item in after[1].left_out] == [saved.message.id, done.message.id]
    assert {item.reason for item in after[1].left_out} == {history.REFUSED}
    assert "Short>" in shown(engine)
    assert "www" not in shown(engine)
    path = conversations.path(conversation_id)
    assert set(history.left_out_ids(path)) == {saved.message.id, done.message.id}


def converse(chat: Chat, conversation_id: str, num_turns: int) -> list[AnswerStarted]:
    started = []
    for number in range(num_turns):
        events = list(chat.turn(conversation_id, f"Question {number:3} " + "q" * 40))
        assert isinstance(events[1], AnswerStarted)
        started.append(events[1])
    return started


def test_what_left_is_recorded_and_stays_out_until_the_next_cut(
    chat: Chat, engine: Any, conversations: Conversations, conversation_id: str, settings: Settings
) -> None:
    engine.max_context = 1024
    engine.answer = "a" * 60
    started = converse(chat, conversation_id, 40)
    counts = [len(event.left_out) for event in started]
    assert counts == sorted(counts), "what has left does not come back"
    assert all(count % 2 == 0 for count in counts), "whole turns leave"
    assert 3 <= len(set(counts)) <= 12, "the cut stays for several turns"
    path = conversations.path(conversation_id)
    for place, event in enumerate(started):
        ids = [message.id for message in path[: len(event.left_out)]]
        assert [item.message_id for item in event.left_out] == ids
        assert history.left_out_ids(path[: 2 * place + 2]) == dict.fromkeys(ids, history.CONTEXT_FULL)
        assert event.prompt_tokens <= 1024 - 100 - 16
    record = path[-1].record["left_out"]
    assert [stretch["messages"] for stretch in record] == [counts[-1]], "one stretch, however much has left"
    assert record[0]["tokens"] == sum(len(message.text) for message in path[: counts[-1]])
    # Another run of the program goes on with the same cut.
    restarted = Chat(chat.assistant, conversations, settings, "fake")
    engine.reused.clear()
    finished(restarted.turn(conversation_id, "And?"))
    assert engine.reused[0] > 300


def test_a_larger_context_sees_again_what_had_left(chat: Chat, engine: Any, conversation_id: str) -> None:
    engine.max_context = 1024
    assert converse(chat, conversation_id, 20)[-1].left_out
    engine.max_context = 8192
    (started,) = converse(chat, conversation_id, 1)
    assert started.left_out == ()


def full_prefills(chat: Chat, engine: Any, conversation_id: str) -> tuple[int, int]:
    """Over 150 turns: how often less than half of a prompt could be reused, and how many tokens were prefilled."""
    engine.max_context = 2048
    engine.answer = "a" * 60
    converse(chat, conversation_id, 150)
    sizes = [len(prompt) for prompt in engine.prompts]
    full = sum(reused < size / 2 for reused, size in zip(engine.reused[1:], sizes[1:], strict=True))
    return full, sum(sizes) - sum(engine.reused)


def test_the_low_water_mark_saves_full_prefills(
    chat: Chat, engine: Any, conversations: Conversations, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    full, tokens = full_prefills(chat, engine, conversations.create().id)
    engine.prompts.clear()
    engine.reused.clear()
    monkeypatch.setattr(budget, "LOW_WATER", 1.0)  # cut no more than has to be: a turn at a time
    full_each, tokens_each = full_prefills(chat, engine, conversations.create().id)
    print(f"to a low-water mark: {full} full prefills, {tokens:,} tokens; "
          f"a turn at a time: {full_each}, {tokens_each:,} tokens")  # fmt: skip
    assert full_each > 100, "once the context is full, nearly every turn is a full prefill"
    assert full < full_each / 4
    assert tokens < tokens_each / 3


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n  Hello   there \nmore", "Hello there"),
        ("a\x1b[31mred\x07", "a [31mred"),
        ("日本語 🙂", "日本語 🙂"),
        ("word " * 30, ("word " * 12)[:59].rstrip() + "…"),
        (" \n ", ""),
        ("```\nx = 1\n```", "x = 1"),
        ("???", "???"),
    ],
)
def test_a_title_is_the_first_line(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title_of(text)) <= 60


def test_policy_of_the_settings_is_used(chat: Chat, engine: Any, conversation_id: str) -> None:
    done = finished(chat.turn(conversation_id, "Hi"))
    assert done.answer is not None
    assert done.answer.policy == GenerationPolicy(max_tokens=100)
