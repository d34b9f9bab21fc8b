"""Conversations with the small real model: pages are reused, Stop stops, and a kill loses next to nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from octavo.app.assistant.assistant import Assistant, load_assistant
from octavo.app.assistant.chat import AnswerDone, AnswerText, Chat
from octavo.app.settings import Settings, load_settings
from octavo.engine.events import Event
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.paths import Paths

pytestmark = pytest.mark.model

VRAM = "96MiB"


@pytest.fixture(scope="module")
def real(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assistant]:
    folder = tmp_path_factory.mktemp("octavo")
    paths = Paths(*(folder / name for name in ("config", "data", "cache", "state")))
    with closing(load_assistant(small_model, Settings(vram=VRAM, disk="off"), paths, fingerprint="small")) as assistant:
        yield assistant


def last(events: Any) -> AnswerDone:
    *_, done = events
    assert isinstance(done, AnswerDone)
    assert done.answer is not None
    return done


@pytest.mark.parametrize("may_stop", [True, False])
def test_a_later_question_reuses_every_complete_page_of_the_earlier_turns(
    real: Assistant,
    conversations: Conversations,
    octavo_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    may_stop: bool,
) -> None:
    if not may_stop:  # every answer is cut off at its longest
        monkeypatch.setattr(real.tokenizer, "eos_ids", frozenset())
    settings = load_settings({"generation": {"max_tokens": 100, "temperature": 0.8, "seed": 7}})
    chat = Chat(real, conversations, settings, "small")
    conversation = conversations.create()
    answers = [last(chat.turn(conversation.id, text)).answer for text in ("Say hello.", "Why salt?", "Thanks.")]
    for earlier, later in pairwise(answers):
        assert earlier is not None
        assert later is not None
        # The last token of an answer that was cut off was chosen, but never computed.
        cut = earlier.finish_reason == "length"
        computed = earlier.metrics.prompt_tokens + earlier.metrics.generated_tokens - cut
        assert later.metrics.reused_tokens == computed // 32 * 32
        if not may_stop:
            assert cut
            assert later.metrics.reused_tokens > earlier.metrics.prompt_tokens + 64, "pages of the answer among them"


def test_stop_leaves_the_engine_idle_within_one_step(
    real: Assistant, conversations: Conversations, octavo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, steps, cancelled = real.engine, [0], [False]
    original = engine.step

    def step() -> list[Event]:
        steps[0] += 1
        return original()

    monkeypatch.setattr(engine, "step", step)
    chat = Chat(real, conversations, load_settings({"generation": {"max_tokens": 300}}), "small")
    at_stop = 0
    for event in chat.turn(conversations.create().id, "Tell me a story.", is_cancelled=lambda: cancelled[0]):
        if isinstance(event, AnswerText) and event.num_tokens >= 3 and not cancelled[0]:
            cancelled[0], at_stop = True, steps[0]
    assert steps[0] == at_stop + 1
    assert engine.is_idle
    engine.cache.check_conservation()
    assert engine.cache.table.num_held == 0


def test_killed_during_an_answer_it_keeps_what_was_there_a_second_before(octavo_home: Path, small_model: Path) -> None:
    arguments = ["ask", "Tell me a very long story about a fox.", "--conversation", "new", "--vram", VRAM]
    process = subprocess.Popen(
        [sys.executable, "-m", "octavo.app", *arguments, "--model", str(small_model), "--max-tokens", "2000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=os.environ | {"OCTAVO_NATIVE_ISA": "portable"},  # slowly, so that the answer lasts
    )
    assert process.stdout is not None
    seen: list[tuple[float, str]] = []
    text = b""
    while not seen or seen[-1][0] - seen[0][0] < 2.5:
        data = os.read(process.stdout.fileno(), 4096)
        assert data, "the answer ended too soon"
        text += data
        seen.append((time.monotonic(), text.decode("utf-8", "ignore")))
    process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    process.wait()
    process.stdout.close()
    with open_database(Paths.from_environment().database_file) as database:
        conversations = Conversations(database)
        assert conversations.mark_interrupted() == 1
        (conversation,) = conversations.list()
        question, answer = conversations.path(conversation.id)
    assert question.text == arguments[1]
    assert answer.status == "interrupted"
    a_second_before = next(shown for moment, shown in reversed(seen) if moment <= killed - 1)
    assert answer.text.startswith(a_second_before)
    assert len(a_second_before) > 0
