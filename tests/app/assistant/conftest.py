"""An engine without a model: it writes what it is told to, and keeps count of pages as the real one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant.assistant import Assistant
from octavo.app.assistant.chat import Chat
from octavo.app.settings import Settings, load_settings
from octavo.engine.config import GenerationPolicy
from octavo.engine.events import AnswerMetrics, DoneEvent, Event, TokenEvent
from octavo.engine.tokenizer import Message, StreamDecoder
from octavo.storage.conversations import Conversations
from octavo.storage.database import Database, open_database

PAGE = 32


class CharacterTokenizer:
    """One token a character; control tokens 1 (a turn begins), 2 (it ends), as in ChatML."""

    eos_ids = frozenset({2})

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, ids: Any) -> str:
        return "".join(chr(token_id) for token_id in ids)

    def stream(self) -> StreamDecoder:
        return StreamDecoder([chr(code).encode() for code in range(0x2000)], set())

    def encode_chat(self, messages: list[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            content = list(message.token_ids) if message.token_ids else self.encode(message.content)
            ids += [1, *self.encode(f"{message.role}\n"), *content, 2, ord("\n")]
        return [*ids, 1, *self.encode("assistant\n")]


@dataclass
class FakeEngine:
    """Answers `answer`, one character a step, unless `before_step` (called before each) does something else."""

    max_context: int = 4096
    answer: str = "A fine answer."
    before_step: Callable[[], None] = lambda: None
    before_submit: Callable[[], None] = lambda: None
    weight_bytes: int = 1000
    prompts: list[list[int]] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    reused: list[int] = field(default_factory=list)
    steps: int = 0
    error: str | None = None
    closed: bool = False
    problems: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    forget_error: Exception | None = None
    rested: list[set[str]] = field(default_factory=list)
    device: str = "cpu"

    def __post_init__(self) -> None:
        tiers = SimpleNamespace(host=None, is_writing=False, collect=lambda: None)
        self.cache = SimpleNamespace(nbytes=1280, used_bytes=1000, tiers=tiers, rest=self.rested.append)
        self._pages: set[tuple[int, ...]] = set()
        self._running: tuple[int, GenerationPolicy] | None = None
        self._written: list[int] = []
        self._finished: list[Event] = []

    @property
    def is_idle(self) -> bool:
        return self._running is None and not self._finished

    def submit(
        self, prompt_ids: list[int], policy: GenerationPolicy, *, eos_ids: frozenset[int], owner: str = ""
    ) -> int:
        self.before_submit()
        self.owners.append(owner)
        self.prompts.append(prompt_ids)
        pages = [tuple(prompt_ids[:end]) for end in range(PAGE, len(prompt_ids), PAGE)]
        known = next((place for place, page in enumerate(pages) if page not in self._pages), len(pages))
        self.reused.append(known * PAGE)
        self._written = []
        self._running = (len(self.prompts), policy)
        return len(self.prompts)

    def take_problems(self) -> list[str]:
        problems, self.problems = self.problems, []
        return problems

    def forget(self, owner: str) -> int:
        self.forgotten.append(owner)
        self.cache.used_bytes -= 400
        if self.forget_error is not None:
            raise self.forget_error
        return 5000

    def close(self) -> None:
        self.closed = True

    def cancel(self, request_id: int, reason: str = "cancelled") -> None:
        if self._running is not None and self._running[0] == request_id:
            self._finish(reason)

    def step(self) -> list[Event]:
        self.steps += 1
        self.before_step()
        events: list[Event] = []
        if self._running is not None:
            request_id, policy = self._running
            if len(self._written) < min(len(self.answer), policy.max_tokens):
                self._written.append(ord(self.answer[len(self._written)]))
                events.append(TokenEvent(request_id, self._written[-1]))
            else:
                self._finish("error" if self.error else "stop")
        finished, self._finished = self._finished, []
        return events + finished

    def _finish(self, reason: Any) -> None:
        assert self._running is not None
        request_id, policy = self._running
        prompt = self.prompts[-1]
        computed = prompt + self._written
        self._pages.update(tuple(computed[:end]) for end in range(PAGE, len(computed) + 1, PAGE))
        reused, generated = self.reused[-1], len(self._written)
        metrics = AnswerMetrics(
            len(prompt), reused, reused, 0, 0, len(prompt) - reused, generated, 0.0, 0.1, 0.2, 10.0, 12.0, 100.0, 0.3
        )
        self._finished.append(DoneEvent(request_id, reason, metrics, policy, self.error))
        self._running = None


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path / "octavo.db") as database:
        yield database


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def settings(octavo_home: Path) -> Settings:
    return load_settings({"generation": {"max_tokens": 100}})


@pytest.fixture
def assistant(engine: FakeEngine) -> Assistant:
    """A real assistant on the fake engine."""
    return Assistant(engine, CharacterTokenizer())  # type: ignore[arg-type]


@pytest.fixture
def chat(assistant: Assistant, conversations: Conversations, settings: Settings) -> Chat:
    return Chat(assistant, conversations, settings, "fake")
