"""The figures of a running engine: how full the context is, and how fast the answer comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from octavo.app.assistant.chat import AnswerDone, AnswerStarted, AnswerText
from octavo.app.assistant.engine_events import EngineEvent, Status

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant

STATUS_S = 0.5  # between two figures of a running answer


class Gauge:
    """Follows the events of one model's answers."""

    def __init__(self) -> None:
        self._prompt_tokens = 0
        self._num_tokens = 0
        self._first: tuple[float, int] | None = None
        self._rate = 0.0
        self._told = 0.0

    def follow(self, event: EngineEvent) -> bool:
        """Take note of an event; true if new figures are due."""
        now = time.monotonic()
        if isinstance(event, AnswerStarted):
            self._prompt_tokens, self._num_tokens, self._first, self._rate = event.prompt_tokens, 0, None, 0.0
        elif isinstance(event, AnswerText):
            self._num_tokens = event.num_tokens
            if self._first is None:
                self._first = now, event.num_tokens
            elif now > self._first[0]:
                self._rate = (event.num_tokens - self._first[1]) / (now - self._first[0])
        elif isinstance(event, AnswerDone) and event.answer is not None:
            self._num_tokens, self._rate = event.answer.metrics.generated_tokens, event.answer.metrics.tokens_per_s
        due = isinstance(event, AnswerStarted) or now - self._told >= STATUS_S
        if due:
            self._told = now
        return due

    def status(self, assistant: Assistant | None, *, busy: bool) -> Status:
        """The figures as they are now."""
        return Status(
            busy=busy,
            tokens_used=self._prompt_tokens + self._num_tokens,
            tokens_limit=assistant.engine.max_context if assistant is not None else 0,
            tokens_per_s=self._rate,
        )
