from dataclasses import replace

import pytest

from octavo.app.assistant.usage import describe_reading, describe_record
from octavo.engine.events import AnswerMetrics

NONE = AnswerMetrics(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("device", "figures", "words"),
    [
        (
            "cpu",
            {"reused_disk": 12_416, "computed_tokens": 27, "ttft_s": 0.41},
            "12,416 tokens from disk, 27 read again, 0.4 s",
        ),
        ("cpu", {"computed_tokens": 12_443, "ttft_s": 45.4}, "12,443 tokens read, 45 s"),
        ("cpu", {"computed_tokens": 1, "ttft_s": 0.02}, "1 token read, 0.0 s"),
        ("cpu", {"reused_device": 64, "reused_host": 32, "prefill_s": 2.0}, "96 tokens from memory, 2.0 s"),
        ("cpu", {"reused_disk": 1, "computed_tokens": 31, "ttft_s": 0.1}, "1 token from disk, 31 read again, 0.1 s"),
        (
            "cuda",
            {"reused_device": 64, "reused_host": 32, "reused_disk": 320, "computed_tokens": 5},
            "64 tokens from the GPU, 32 tokens from memory, 320 tokens from disk, 5 read again, 0.0 s",
        ),
    ],
)
def test_where_the_tokens_of_a_prompt_came_from(device: str, figures: dict[str, float], words: str) -> None:
    assert describe_reading(replace(NONE, **figures), device) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(("device", "place"), [("cpu", "memory"), ("cuda", "the GPU")])
def test_a_stored_answer_says_the_same(device: str, place: str) -> None:
    usage = {"reused_from": {"device": 64, "host": 0, "disk": 12_416}, "computed_tokens": 27}
    record = {"usage": usage, "timings": {"ttft_s": 0.41, "prefill_s": 0.3}, "device": device}
    assert describe_record(record) == f"64 tokens from {place}, 12,416 tokens from disk, 27 read again, 0.4 s"


@pytest.mark.parametrize("record", [{}, {"usage": None}, {"usage": {"prompt_tokens": 9, "reused_tokens": 0}}])
def test_a_record_from_before_says_nothing(record: dict[str, object]) -> None:
    assert describe_record(record) == ""
