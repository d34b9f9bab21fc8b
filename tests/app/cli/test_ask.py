"""`octavo ask` as a person or a script meets it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from octavo.app.assistant.assistant import Answer, TextEvent
from octavo.app.cli import opening
from octavo.app.cli.main import cli
from octavo.engine.config import GenerationPolicy
from octavo.engine.events import AnswerMetrics
from octavo.engine.tokenizer import Message

METRICS = AnswerMetrics(5, 0, 0, 0, 0, 5, 2, 0.0, 0.1, 0.2, 10.0, 12.0, 100.0, 0.3)


class FakeAssistant:
    """Answers "Hello [b]you[/b]" and remembers what it was asked."""

    def __init__(self, error: str | None = None) -> None:
        self.error = error
        self.messages: list[Message] = []
        self.policy = GenerationPolicy()
        self.problems: list[str] = []
        self.is_closed = False

    budgets: Any = None

    def take_problems(self) -> list[str]:
        return self.problems

    def close(self) -> None:
        self.is_closed = True

    def answer(self, messages: list[Message], policy: GenerationPolicy, **_: Any) -> Iterator[TextEvent | Answer]:
        self.messages, self.policy = messages, policy
        yield TextEvent("Hello ")
        yield TextEvent("[b]you[/b]")
        yield Answer("Hello [b]you[/b]", (1, 2), "error" if self.error else "stop", METRICS, policy, self.error)


@pytest.fixture
def fake(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> FakeAssistant:
    assistant = FakeAssistant()
    monkeypatch.setattr(opening, "open_assistant", lambda settings: (assistant, "fake"))
    return assistant


def ask(*arguments: str, stdin: str | bytes = "") -> Any:
    return CliRunner().invoke(cli, ["ask", *arguments], input=stdin, standalone_mode=False)


def test_streams_the_text_as_it_is_and_ends_the_line(fake: FakeAssistant) -> None:
    result = ask("hi")
    assert result.output == "Hello [b]you[/b]\n"
    assert result.return_value == 0
    assert fake.messages == [Message("user", "hi")]


def test_standard_input_is_the_material_and_the_argument_the_question(fake: FakeAssistant) -> None:
    ask("What is this?", stdin="some text\n")
    assert fake.messages == [Message("user", "some text\n\n\nWhat is this?")]
    ask(stdin="only this")
    assert fake.messages == [Message("user", "only this")]


def test_policy_options_and_the_system_prompt_arrive(fake: FakeAssistant) -> None:
    options = "--temperature 0 --top-k 3 --top-p 0.5 --min-p 0.1 --repetition-penalty 1.2 --max-tokens 7 --seed 4"
    ask("hi", "--system", "Be brief.", "--stop", "A", "--stop", "B", *options.split())
    assert fake.policy == GenerationPolicy(0.0, 3, 0.5, 0.1, 1.2, 7, ("A", "B"), 4)
    assert fake.messages[0] == Message("system", "Be brief.")


def test_json_is_one_document_with_every_figure(fake: FakeAssistant) -> None:
    document = json.loads(ask("hi", "--json").output)
    assert document["text"] == "Hello [b]you[/b]"
    assert document["usage"] == {
        "prompt_tokens": 5,
        "reused_tokens": 0,
        "reused_from": {"device": 0, "host": 0, "disk": 0},
        "computed_tokens": 5,
        "generated_tokens": 2,
    }
    assert set(document["timings"]) == {
        "queue_s",
        "prefill_s",
        "ttft_s",
        "itl_p50_ms",
        "itl_p95_ms",
        "itl_p99_ms",
        "tokens_per_s",
        "e2e_s",
    }
    assert (document["model"], document["finish_reason"]) == ("fake", "stop")
    assert document["policy"]["temperature"] == GenerationPolicy().temperature


def test_explained_it_says_on_stderr_what_was_read_and_what_went_wrong(fake: FakeAssistant) -> None:
    fake.problems = ["A page could not be kept."]
    assert (ask("hi").stdout, ask("hi").stderr) == ("Hello [b]you[/b]\n", "A page could not be kept.\n")
    fake.budgets = SimpleNamespace(device="cpu", notes=("vram auto: some.", "ram auto: off."))
    explained = ask("hi", "-v")
    assert explained.stdout == "Hello [b]you[/b]\n"
    assert explained.stderr.splitlines() == [
        "vram auto: some.",
        "ram auto: off.",
        "A page could not be kept.",
        "Read: 5 tokens read, 0.2 s.",
    ]


def test_the_assistant_is_closed(fake: FakeAssistant) -> None:
    ask("hi")
    assert fake.is_closed


def run(arguments: list[str], stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "octavo.app", *arguments],
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


def test_an_answer_that_breaks_off_is_an_error(fake: FakeAssistant) -> None:
    fake.error = "RuntimeError: no memory"
    result = ask("hi")
    assert result.output == "Hello [b]you[/b]\n"
    assert str(result.exception) == "The answer broke off: RuntimeError: no memory."


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        ([], b"", 2, "There is nothing to ask"),
        ([" "], b" \n", 2, "There is nothing to ask"),
        (["hi"], b"caf\xe9", 1, "byte 3 is 0xe9"),
        (["hi", "--top-p", "7"], b"", 2, "top_p in --top-p is 7"),
        (["hi", "--vram", "20000000"], b"", 2, "vram in --vram"),
        (["hi", "--disk", "much"], b"", 2, 'disk in --disk is "much"'),
        (["hi", "--model", "no-such-model"], b"", 1, "No model is called no-such-model"),
        (["hi", "--model", "./missing.gguf"], b"", 1, "missing.gguf"),
        (["hi", "--offline"], b"", 1, "offline mode is on"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr(
    octavo_home: Path, arguments: list[str], stdin: bytes, code: int, message: str
) -> None:
    result = run(["ask", *arguments], stdin)
    assert result.returncode == code
    assert result.stdout == b""
    assert message in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


def test_a_broken_model_file_is_named(octavo_home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\0\0\0")
    result = run(["ask", "hi", "--model", str(broken)])
    assert result.returncode == 1
    assert str(broken) in result.stderr.decode()
    assert result.stdout == b""


@pytest.mark.model
def test_a_real_answer_redirected_is_only_its_text(octavo_home: Path, small_model: Path) -> None:
    arguments = ["ask", "Say hello.", "--model", str(small_model), "--max-tokens", "8", "--temperature", "0"]
    plain = run(arguments, CLICOLOR_FORCE="1")
    document = json.loads(run([*arguments, "--json"]).stdout)
    assert plain.stderr == b""
    assert plain.stdout.decode() == document["text"].rstrip("\n") + "\n"
    assert document["usage"]["generated_tokens"] <= 8
    assert document["timings"]["ttft_s"] >= document["timings"]["prefill_s"] > 0
    assert document["policy"]["seed"] is not None


@pytest.mark.model
def test_ctrl_c_ends_the_answer_and_keeps_what_came(octavo_home: Path, small_model: Path) -> None:
    arguments = ["ask", "Tell me a long story about a fox.", "--model", str(small_model), "--temperature", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "octavo.app", *arguments, "--max-tokens", "4000", "--vram", "128MiB"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert first
    assert rest.endswith(b"\n")
    assert len(rest.split()) < 2000, "4,000 tokens would be more words than that"
