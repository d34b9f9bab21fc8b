"""What happens between the steps: figures are fresh, pages are shown, idle conversations leave the device in time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from octavo.app.assistant.watch import Look, Watch


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Cache:
    def __init__(self) -> None:
        self.rested: list[set[str]] = []
        self.tiers = SimpleNamespace(collect=lambda: None, is_writing=False)

    def rest(self, owners: set[str]) -> int:
        self.rested.append(set(owners))
        return 0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def chat():
    engine = SimpleNamespace(cache=Cache(), device="cpu")
    return SimpleNamespace(assistant=SimpleNamespace(engine=engine, store=None), model="m")


def test_an_idle_conversation_leaves_the_device_after_its_time_and_the_open_one_stays(clock, chat):
    watch = Watch(lambda shown: None, idle_s=300, clock=clock)
    rested = chat.assistant.engine.cache.rested
    watch.open("a")
    watch.asked("a")
    watch.asked("b")
    clock.now += 299
    watch.attend(chat, idle=True)
    assert rested == []
    clock.now += 14  # the next check is fifteen seconds after the last
    watch.attend(chat, idle=True)
    assert rested == []
    clock.now += 1
    watch.attend(chat, idle=True)
    assert rested == [{"b"}], "a is open"
    watch.open("c")
    clock.now += 299
    watch.attend(chat, idle=True)
    assert rested == [{"b"}], "a was left only now"
    clock.now += 16
    watch.attend(chat, idle=True)
    assert rested == [{"b"}, {"a", "b"}], "what they share leaves with the last of them"
    clock.now += 1_000
    watch.attend(chat, idle=True)
    assert rested == [{"b"}, {"a", "b"}], "once is enough"
    watch.asked("b")
    watch.close("a")
    watch.attend(chat)
    assert rested[2:] == [{"a"}], "b has its pages again"


def test_a_closed_conversation_leaves_at_the_next_step_unless_it_was_opened_again(clock, chat):
    nudges = []
    watch = Watch(lambda shown: None, lambda: nudges.append(1), clock=clock)
    rested = chat.assistant.engine.cache.rested
    watch.asked("a")
    watch.close("a")
    assert nudges == [1]
    watch.attend(chat)
    assert rested == [{"a"}]
    watch.open("b")
    watch.close("b")
    watch.attend(chat)
    assert rested == [{"a"}]


def test_a_look_is_answered_without_a_model_too(clock):
    shown = []
    watch = Watch(shown.append, clock=clock)
    watch.look(Look("a", page=3))
    watch.attend(None, idle=True)
    (answer,) = shown
    assert (answer.look, answer.map, answer.detail) == (Look("a", page=3), None, None)


def test_the_thread_waits_long_only_where_nothing_moves(clock, chat):
    watch = Watch(lambda shown: None, clock=clock)
    assert watch.patience(None) == watch.patience(chat) == 15.0
    chat.assistant.engine.cache.tiers.is_writing = True
    assert watch.patience(chat) < 1.0
