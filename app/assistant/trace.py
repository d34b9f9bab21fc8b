"""A trace of answers: one JSON line each, for whoever wants to know what the time and the memory went to.

Texts of prompts and answers are in it only where that was asked for.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.storage.records import StoredMessage

_MOST_QUESTIONS = 64
PROMPT_VERSION = 1
"""Grows when prompts are put together in another way."""

_IDS = ("conversation", "message", "question")
_TIMES = ("queue_s", "prefill_s", "ttft_s", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "tokens_per_s", "e2e_s")
_TOKENS = ("prompt_tokens", "reused_tokens", "computed_tokens", "generated_tokens")


class Trace:
    """Appends to a file that only this user can read. `with_text` adds what was asked and answered."""

    def __init__(self, file: Path, *, with_text: bool = False) -> None:
        """Raises AppError if the file cannot be written."""
        self._with_text = with_text
        self._writing = threading.Lock()
        try:
            file.touch(mode=0o600)
            self._file = file.open("a", encoding="utf-8")
        except OSError as error:
            raise AppError(f"The trace {file} cannot be written: {error.strerror}.") from error

    def stored(self, message: StoredMessage, question: str | None = None) -> None:
        """An answer of a conversation, as it was saved."""
        ids = {"conversation": message.conversation_id, "message": message.id, "question": message.parent_id}
        self.write({**message.record, **ids, "model": message.model, "text": message.text}, question)

    def write(self, record: Mapping[str, Any], question: str | None = None) -> None:
        """An answer by its record, with its model, its text and, where it is kept, its ids."""
        line: dict[str, Any] = {
            "at": round(time.time(), 3),
            **{name: record[name] for name in _IDS if name in record},
            "model": record.get("model"),
            "octavo": _version(),
            "prompt_version": PROMPT_VERSION,
            "policy": record.get("policy"),
            "usage": record.get("usage"),
            "window": record.get("window"),
            "left_out": [_without_ids(stretch) for stretch in record.get("left_out") or ()],
            "pages": record.get("pages"),
            "timings": record.get("timings"),
            "device": record.get("device"),
            "finish_reason": record.get("finish_reason"),
            "error": record.get("error"),
        }
        if line["policy"] and not self._with_text:
            line["policy"] = {**line["policy"], "stop": len(line["policy"].get("stop") or ())}
        if self._with_text:
            line |= {"question_text": question, "answer_text": record.get("text")}
        with self._writing:
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def following(self, on_event: Callable[[Any], None]) -> Callable[[Any], None]:
        """`on_event`, with every answer that its events end written down first."""
        from octavo.app.assistant.chat import AnswerDone, UserSaved

        questions: OrderedDict[str, str] = OrderedDict()

        def follow(event: Any) -> None:
            if isinstance(event, UserSaved) and self._with_text:
                questions[event.message.id] = event.message.text
                if len(questions) > _MOST_QUESTIONS:
                    questions.popitem(last=False)
            elif isinstance(event, AnswerDone):
                self.stored(event.message, questions.get(event.message.parent_id or ""))
            on_event(event)

        return follow


def read_trace(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The answers of a trace. Raises AppError, naming the line that is none."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or "finish_reason" not in entry:
            raise AppError(f"Line {number} is not a line of a trace; `octavo chat --trace FILE` writes one.")
        found.append(entry)
    return found


def sum_up(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts by model and ending, tokens, pages by tier, and the middle, 95 % and 99 % of every time."""
    usages = [entry.get("usage") or {} for entry in entries]
    pages = [entry.get("pages") or {} for entry in entries]
    return {
        "answers": len(entries),
        "models": dict(Counter(str(entry.get("model")) for entry in entries)),
        "finish_reasons": dict(Counter(str(entry.get("finish_reason")) for entry in entries)),
        "errors": dict(Counter(str(entry["error"]) for entry in entries if entry.get("error"))),
        "tokens": {name: sum(int(usage.get(name, 0)) for usage in usages) for name in _TOKENS},
        "pages": {name: sum(int(page.get(name, 0)) for page in pages) for name in ("total", "device", "host", "disk")},
        "timings": {name: _spread(entries, name) for name in _TIMES},
    }


def _spread(entries: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    from octavo.engine.events import percentile

    values = [float(timings[name]) for entry in entries if (timings := entry.get("timings")) and timings.get(name)]
    shares = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    return {label: round(percentile(values, share), 6) for label, share in shares}


def _without_ids(stretch: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stretch[name] for name in ("reason", "messages", "tokens") if name in stretch}


def _version() -> str:
    try:
        return metadata.version("octavo")
    except metadata.PackageNotFoundError:
        return "checkout"
