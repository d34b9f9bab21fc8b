"""Traces: one line an answer, without its texts unless they are wanted, and what `octavo stats` makes of them."""

from __future__ import annotations

import json
import stat
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from octavo.app.assistant.chat import AnswerDone, UserSaved
from octavo.app.assistant.trace import Trace, read_trace, sum_up
from octavo.app.cli.main import cli
from octavo.app.errors import AppError
from octavo.storage.records import StoredMessage

RECORD = {
    "policy": {"temperature": 0.7, "seed": 5, "stop": ["a secret stop"]},
    "usage": {"prompt_tokens": 100, "reused_tokens": 64, "computed_tokens": 36, "generated_tokens": 9},
    "window": {"context": 8192, "reserve": 1024, "margin": 16, "prompt_tokens": 100, "kept_from": "id"},
    "left_out": [{"first_id": "a", "last_id": "b", "reason": "context full", "messages": 2, "tokens": 30}],
    "pages": {"total": 3, "page_size": 32, "device": 2, "host": 0, "disk": 1, "dense": True, "window": 2, "chosen": []},
    "timings": {"queue_s": 0.0, "ttft_s": 0.5, "itl_p50_ms": 10.0, "tokens_per_s": 60.0, "e2e_s": 1.0},
    "finish_reason": "stop",
}
ANSWER = StoredMessage("m2", "c1", "m1", "assistant", "a private answer", "complete", "", (), "tiny", RECORD)
QUESTION = StoredMessage("m1", "c1", None, "user", "a private question", "complete", "", (), "", {})


def lines(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_line_names_everything_but_the_texts(tmp_path):
    file = tmp_path / "trace.jsonl"
    trace, seen = Trace(file), []
    follow = trace.following(seen.append)
    follow(UserSaved(QUESTION))
    follow(AnswerDone(ANSWER, None))
    trace.close()
    (line,) = lines(file)
    assert (line["conversation"], line["message"], line["question"], line["model"]) == ("c1", "m2", "m1", "tiny")
    assert line["usage"] == RECORD["usage"]
    assert line["pages"]["disk"] == 1
    assert line["left_out"] == [{"reason": "context full", "messages": 2, "tokens": 30}]
    assert line["finish_reason"] == "stop"
    assert "private" not in file.read_text()
    assert "secret" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(seen) == 2, "events go on as they came"


def test_texts_are_written_where_they_are_asked_for(tmp_path):
    file = tmp_path / "trace.jsonl"
    trace = Trace(file, with_text=True)
    follow = trace.following(lambda event: None)
    follow(UserSaved(QUESTION))
    follow(AnswerDone(ANSWER, None))
    trace.close()
    (line,) = lines(file)
    assert (line["question_text"], line["answer_text"]) == ("a private question", "a private answer")


def test_a_trace_goes_on_where_it_stopped_and_is_summed_up(tmp_path):
    file = tmp_path / "trace.jsonl"
    for ttft in (0.5, 1.5):
        trace = Trace(file)
        trace.write({**RECORD, "model": "tiny", "timings": {**RECORD["timings"], "ttft_s": ttft}})
        trace.close()
    trace = Trace(file)
    trace.write({"model": "other", "finish_reason": "error", "error": "Memory ran out."})
    trace.close()
    result = CliRunner().invoke(cli, ["stats", str(file), "--json"])
    summary = json.loads(result.output)
    assert summary["answers"] == 3
    assert summary["models"] == {"tiny": 2, "other": 1}
    assert summary["finish_reasons"] == {"stop": 2, "error": 1}
    assert summary["errors"] == {"Memory ran out.": 1}
    assert summary["tokens"]["generated_tokens"] == 18
    assert summary["pages"] == {"total": 6, "device": 4, "host": 0, "disk": 2}
    assert (summary["timings"]["ttft_s"]["p50"], summary["timings"]["ttft_s"]["p99"]) == (0.5, 1.5)
    text = CliRunner().invoke(cli, ["stats", str(file)]).output
    assert "3 (2 stop, 1 error)" in text
    assert "Memory ran out." in text
    assert "_" not in text, "figures have names that a person knows"
    for name in summary["timings"]:
        assert f"{summary['timings'][name]['p50']:,.{2 if name.endswith('_s') else 1}f}" in text
    (tmp_path / "empty").touch()
    assert "no answer" in CliRunner().invoke(cli, ["stats", str(tmp_path / "empty")]).output


def test_what_is_no_trace_is_refused_with_its_line(tmp_path):
    with pytest.raises(AppError, match="Line 2 is not a line of a trace"):
        read_trace(['{"finish_reason": "stop"}', '{"x": 1}'])
    assert sum_up([])["answers"] == 0
    with pytest.raises(AppError, match="cannot be written"):
        Trace(tmp_path / "no" / "folder")


def test_asking_with_a_trace(tmp_path, monkeypatch, octavo_home):
    answer = SimpleNamespace(error=None, finish_reason="stop")
    document = {**RECORD, "model": "tiny", "text": "a private answer"}
    monkeypatch.setattr("octavo.app.cli.ask._ask", lambda *args, **kwargs: (answer, document))
    file = tmp_path / "trace.jsonl"
    result = CliRunner().invoke(cli, ["ask", "Why?", "--trace", str(file), "--trace-text"])
    assert result.exit_code == 0, result.output
    (line,) = lines(file)
    assert (line["question_text"], line["answer_text"], line["model"]) == ("Why?", "a private answer", "tiny")
    refused = CliRunner().invoke(cli, ["ask", "Why?", "--trace-text"])
    assert "needs --trace" in refused.output
