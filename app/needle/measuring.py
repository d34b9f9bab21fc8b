"""Asks the questions of one text, one after the other over the same pages, and counts what is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from octavo.app.errors import AppError
from octavo.app.needle.contexts import check_length, prompt
from octavo.app.needle.scoring import count_found
from octavo.app.needle.task import Context, Question

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.engine.events import AnswerMetrics

OWNER = "bench-needle"


@dataclass(frozen=True, slots=True)
class Asked:
    """One answer. `pages_read` are those of the token and layer that read the most, of the `pages_total` there were.

    `peak_bytes` is None where it was not measured.
    """

    question: Question
    text: str
    metrics: AnswerMetrics
    pages_read: int
    pages_total: int
    peak_bytes: int | None

    @property
    def found(self) -> int:
        return count_found(self.text, self.question.expected, self.question.is_value)


def ask_all(
    assistant: Assistant, context: Context, tokens: int, on_answer: Callable[[Asked], object] = lambda _: None
) -> list[Asked]:
    """An answer to every question; the text is read for the first of them and its pages are found by the others.

    The pages are forgotten at the end. Raises AppError where an answer fails, where `tokens` are exceeded, and where
    a later question had to read the text again.
    """
    answers: list[Asked] = []
    shared = len(context.ids) // assistant.engine.config.page_size * assistant.engine.config.page_size
    for question in context.questions:
        ids = prompt(assistant.tokenizer, context.ids, question)
        check_length(len(ids), question, tokens)
        asked = _ask(assistant, ids, question, measures_peak=not answers)
        if answers and asked.metrics.reused_tokens < shared:
            raise AppError(
                f"Of the {shared:,} tokens that were read, {asked.metrics.reused_tokens:,} were found again; raise "
                "--vram, --ram or --disk."
            )
        answers.append(asked)
        on_answer(asked)
    assistant.engine.forget(OWNER)
    return answers


def as_rows(task: str, haystack: str | None, tokens: int, answers: list[Asked]) -> list[dict[str, Any]]:
    """One row for every answer; speeds and the peak are those of the whole text."""
    first = answers[0].metrics
    gaps = [asked.metrics.itl_p50_ms for asked in answers if asked.metrics.itl_p50_ms]
    peak = max(asked.peak_bytes or 0 for asked in answers)
    return [
        {
            "task": task,
            "haystack": haystack,
            "tokens": tokens,
            "depth": asked.question.depth,
            "found": asked.found,
            "total": len(asked.question.expected),
            "prefill_tok_s": round(first.computed_tokens / first.prefill_s, 1),
            "decode_tok_s": round(1e3 / median(gaps), 1) if gaps else None,
            "pages_read": asked.pages_read,
            "pages_total": asked.pages_total,
            "device_peak_mb": round(peak / 1e6, 1),
            "reused_tokens": asked.metrics.reused_tokens,
            "expected": list(asked.question.expected),
            "answer": asked.text,
        }
        for asked in answers
    ]


def _ask(assistant: Assistant, ids: list[int], question: Question, *, measures_peak: bool) -> Asked:
    """The greedy answer; the peak is that of the step that computes the last whole chunk of the prompt."""
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.events import TokenEvent
    from octavo.engine.peak import device_peak

    engine, tokenizer = assistant.engine, assistant.tokenizer
    policy = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=question.answer_tokens)
    request_id = engine.submit(ids, policy, eos_ids=tokenizer.eos_ids, owner=OWNER)
    last_chunk = max(len(ids) // engine.config.prefill_chunk - 1, 0)
    step, peak = 0, None
    answer: list[int] = []
    read, total = 0, 0
    try:
        while True:
            if measures_peak and step == last_chunk:
                events, peak = device_peak(engine, engine.step)
            else:
                events = engine.step()
            step += 1
            for event in events:
                if isinstance(event, TokenEvent):
                    answer.append(event.token_id)
                    read, total = max((read, total), engine.inspection.pages_read(request_id) or (0, 0))
                    continue
                if event.error is not None:
                    raise AppError(event.error)
                return Asked(question, tokenizer.decode(answer), event.metrics, read, total, peak)
    finally:
        engine.cancel(request_id)
