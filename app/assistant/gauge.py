"""The figures of a running engine: how full the context is, how fast the answer comes, what the memory holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from octavo.app.assistant.chat import AnswerDone, AnswerStarted, AnswerText
from octavo.app.assistant.engine_events import EngineEvent, Status
from octavo.app.assistant.forgetting import host_bytes

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
        """The figures as they are now; without a model those of the process alone."""
        import psutil

        engine = assistant.engine if assistant is not None else None
        cache = engine.cache if engine is not None else None
        host_used, host_total = host_bytes(cache) if cache is not None else (0, 0)
        return Status(
            busy=busy,
            weights=engine.weight_bytes if engine else 0,
            kv_used=cache.used_bytes if cache else 0,
            kv_total=cache.nbytes if cache else 0,
            process_rss=psutil.Process().memory_info().rss,
            tokens_used=self._prompt_tokens + self._num_tokens,
            tokens_limit=engine.max_context if engine else 0,
            tokens_per_s=self._rate,
            host_used=host_used,
            host_total=host_total,
        )
