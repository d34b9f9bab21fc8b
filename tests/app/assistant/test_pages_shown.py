"""A screen asks the engine's thread about pages, with a tiny real model: after an answer, and after it was closed."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from octavo.app.assistant.assistant import load_assistant
from octavo.app.assistant.chat import AnswerDone
from octavo.app.assistant.engine_events import ModelReady, PagesForgotten, Status
from octavo.app.assistant.engine_thread import EngineThread
from octavo.app.assistant.watch import Look, PagesShown
from octavo.app.settings import load_settings
from octavo.engine.inspection import DEVICE, DISK
from octavo.storage.conversations import Conversations
from octavo.storage.paths import Paths

PAGE = 8


class Events:
    def __init__(self):
        self.list, self._changed, self._seen = [], threading.Condition(), 0

    def __call__(self, event):
        with self._changed:
            self.list.append(event)
            self._changed.notify_all()

    def wait(self, kind):
        with self._changed:
            while True:
                for place in range(self._seen, len(self.list)):
                    if isinstance(self.list[place], kind):
                        self._seen = place + 1
                        return self.list[place]
                assert self._changed.wait(30), f"no {kind.__name__} came: {self.list}"


@pytest.fixture
def model(tmp_path, tiny_gguf):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf())
    return path


@pytest.fixture
def thread(database, octavo_home, model, monkeypatch):
    flags = {"model": str(model), "page_size": PAGE, "prefill_chunk": 16, "disk": "64MiB"}
    settings = load_settings({**flags, "generation": {"max_tokens": 20, "seed": 1}})
    found = SimpleNamespace(name="tiny", present=True, path=model, entry=None)
    monkeypatch.setattr("octavo.app.models.resolve.resolve_model", lambda *_: found)
    events = Events()

    def load(model, settings, paths):
        return load_assistant(model.path, settings, paths, fingerprint="0" * 64)

    made = EngineThread(Conversations(database), events, settings=settings, paths=Paths.from_environment(), load=load)
    made.events = events
    made.start()
    yield made
    made.close()


def ask(thread, database):
    conversation = Conversations(database).create("a")
    thread.load()
    thread.events.wait(ModelReady)
    thread.watch.open(conversation.id)
    thread.turn(conversation.id, "abababab" * 6)
    done = thread.events.wait(AnswerDone)
    thread.events.wait(Status)
    return conversation.id, done.message


def looked(thread, look):
    thread.watch.look(look)
    return thread.events.wait(PagesShown)


def test_pages_are_shown_with_their_text_after_an_answer(thread, database):
    owner, answer = ask(thread, database)
    shown = looked(thread, Look(owner, page=1))
    tokens = answer.record["usage"]["prompt_tokens"] + answer.record["usage"]["generated_tokens"]
    assert shown.map.num_tokens == tokens
    assert shown.map.num_complete == answer.record["pages"]["total"] == (tokens - 1) // PAGE
    assert (shown.map.tier[:, : shown.map.num_complete] == DEVICE).all()
    assert shown.detail.index == 1
    assert shown.text
    assert set(shown.text) <= {"a", "b"}
    texts = looked(thread, Look(owner, None, answer.id, (0, 1))).texts
    assert [place for place, _ in texts] == [0, 1]
    assert texts[1][1] == shown.text


def test_figures_are_those_of_the_pools_once_an_answer_has_ended(thread, database):
    owner, answer = ask(thread, database)
    looked(thread, Look(owner))
    figures = thread.watch.snapshot.engine
    assert figures.slots.in_use == figures.tails.in_use == 0
    assert figures.slots.cached == answer.record["pages"]["total"] * figures.page_bytes
    assert figures.hit_rate == 1.0
    assert thread.watch.snapshot.store.bytes_on_disk > 0
    thread.forget(owner)
    thread.events.wait(PagesForgotten)
    looked(thread, Look("somebody else"))
    assert thread.watch.snapshot.engine.slots.occupied == 0


def test_a_closed_conversation_lies_on_disk_alone_and_is_found_there(thread, database):
    owner, _ = ask(thread, database)
    thread.watch.open(None)
    for _ in range(200):
        looked(thread, Look(owner))
        if not thread._assistant.engine.cache.tiers.is_writing:
            break
    thread.watch.close(owner)
    shown = looked(thread, Look(owner))
    assert (shown.map.tier <= DISK + 1).all()
    assert thread.watch.snapshot is not None
    again = looked(thread, Look(owner))
    assert not (again.map.tier == DEVICE).any()


def test_a_conversation_that_is_not_there_is_told_so(thread, database):
    ask(thread, database)
    assert looked(thread, Look("nobody")).map is None
