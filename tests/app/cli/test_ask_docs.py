"""`octavo ask --doc`, with an assistant that says what it is told to say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant.assistant import Answer, TextEvent
from octavo.app.cli import opening
from octavo.engine.events import AnswerMetrics
from octavo.engine.tokenizer import Message

METRICS = AnswerMetrics(5, 0, 0, 0, 0, 5, 2, 0.0, 0.1, 0.2, 10.0, 12.0, 100.0, 0.3)
LEASE = (
    "# Lease\n\nThe lease begins on 3 May 2021. The rent is 1,250 euros a month.\n\n"
    "# Garden\n\nThe garden has 4 trees.\n"
)


class Scripted:
    """Gives its answers in order and remembers the prompts."""

    budgets: Any = None

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.prompts: list[list[Message]] = []
        self.owners: list[str] = []
        self.engine = SimpleNamespace(
            max_context=4096, inspection=SimpleNamespace(num_known=lambda ids: 0), config=SimpleNamespace(page_size=32)
        )
        self.tokenizer = SimpleNamespace(
            encode=lambda text: text.split(),
            encode_chat=lambda messages: [word for message in messages for word in message.content.split()],
        )

    def take_problems(self) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def answer(self, messages: list[Message], policy: Any, *, owner: str = "", **_: Any) -> Iterator[Any]:
        self.prompts.append(list(messages))
        self.owners.append(owner)
        text = self.answers.pop(0)
        yield TextEvent(text)
        yield Answer(text, (1,), "stop", METRICS, policy, None)


@pytest.fixture
def ask(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """ask(assistant, *arguments) asks about lease.md."""
    Path("lease.md").write_text(LEASE)
    monkeypatch.setattr("sys.stdin", None)  # a terminal, as far as `ask` is concerned

    def call(assistant: Scripted, *arguments: str) -> Any:
        monkeypatch.setattr(opening, "open_assistant", lambda settings: (assistant, "scripted"))
        return octavo("ask", "--doc", "lease.md", "--embedder", "off", *arguments)

    return call


def test_json_has_checked_citations_with_exact_places(ask: Callable[..., Any]) -> None:
    result = ask(
        Scripted("The rent is 1,250 euros a month [C1]."), "How high is the rent?", "--mode", "search", "--json"
    )
    assert result.code == 0
    document = json.loads(result.out)
    assert {"text", "citations", "ledger", "mode", "refused", "coverage", "usage"} <= set(document)
    assert (document["mode"], document["refused"], document["coverage"]) == ("search", False, 1.0)
    (citation,) = document["citations"]
    assert citation["supported"] is True
    assert LEASE[citation["start"] : citation["end"]] == citation["quote"] == "The rent is 1,250 euros a month."
    assert document["ledger"][0]["decision"] == "chosen"
    assert document["usage"]["prompt_tokens"] == 5


def test_one_repair_then_the_answer_is_refused(ask: Callable[..., Any]) -> None:
    assistant = Scripted("The rent is 900 euros.", "The rent is 1,250 euros a month.")
    result = ask(assistant, "How high is the monthly rent in euros?", "--mode", "search")
    assert result.out.startswith("The rent is 1,250 euros a month [C1].\n")
    assert "The rent is 900 euros." in assistant.prompts[1][-1].content
    stubborn = Scripted("The rent is 900 euros.", "The rent is 800 euros.")
    result = ask(stubborn, "How high is the monthly rent in euros?", "--mode", "search", "--json")
    document = json.loads(result.out)
    assert (document["refused"], document["text"]) == (
        True,
        "The model found no answer that the documents bear out.",
    )
    assert document["unsupported"] == ["The rent is 900 euros."]
    assert stubborn.answers == []


def test_refusal_comes_before_generation_and_shows_what_is_nearest(ask: Callable[..., Any]) -> None:
    """anything-llm#1430."""
    assistant = Scripted()
    result = ask(assistant, "Why is the sky blue?")
    assert result.code == 0
    assert result.out.splitlines()[:2] == ["The documents do not answer this.", "Not found in them: sky, blue."]
    assert assistant.prompts == []


def test_a_refusal_has_an_ending_like_any_answer(ask: Callable[..., Any], octavo: Callable[..., Any]) -> None:
    result = ask(Scripted(), "Why is the sky blue?", "--json", "--trace", "trace.jsonl")
    assert json.loads(result.out)["finish_reason"] == "stop"
    ask(Scripted(), "Why is the sky blue?", "--conversation", "new", "--trace", "trace.jsonl")
    summary = json.loads(octavo("stats", "trace.jsonl", "--json").out)
    assert summary["finish_reasons"] == {"stop": 2}


def test_read_mode_puts_the_document_first_and_owns_its_pages(ask: Callable[..., Any]) -> None:
    assistant = Scripted("The garden has 4 trees [C2].", "The rent is 1,250 euros a month.")
    first = json.loads(ask(assistant, "How many trees has the garden?", "--json").out)
    second = json.loads(ask(assistant, "How many euros is the rent a month?", "--mode", "read", "--json").out)
    assert (first["mode"], second["mode"]) == ("read", "read")
    assert assistant.prompts[0][0] == assistant.prompts[1][0]
    assert "1,250 euros" in assistant.prompts[0][0].content
    assert assistant.owners[0] == assistant.owners[1] == f"document:{first['citations'][0]['document']}"


def test_explain_shows_the_ledger(ask: Callable[..., Any]) -> None:
    result = ask(Scripted("The garden has 4 trees."), "How many trees has the garden?", "--explain", "--mode", "search")
    assert "Mode: search." in result.err
    assert "among the best" in result.err
    assert "Only keywords were looked for" in result.err


def test_files_that_cannot_be_asked_about(ask: Callable[..., Any], octavo: Callable[..., Any]) -> None:
    Path("empty.txt").write_text(" ")
    result = octavo("ask", "--doc", "empty.txt", "--embedder", "off", "What is in it?")
    assert (result.code, result.err) == (1, "Error: empty.txt cannot be asked about (empty). There is no text in it.\n")
    assert "There is no document nothing.pdf" in octavo("ask", "--doc", "nothing.pdf", "--embedder", "off", "What?").err
    assert octavo("ask", "--mode", "read", "What?").code == 2


def test_a_document_stays_open_in_a_conversation(
    ask: Callable[..., Any], octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assistant = Scripted("The rent is 1,250 euros a month.", "The garden has 4 trees [C1].")
    result = ask(assistant, "How high is the rent?", "--mode", "search", "--conversation", "new")
    assert result.code == 0
    assert result.out.startswith("The rent is 1,250 euros a month [C1].\n  [C1] characters ")
    result = octavo("ask", "--conversation", "last", "How many trees has the garden?", "--json")
    document = json.loads(result.out)
    assert (document["mode"], document["refused"]) == ("search", False)
    assert document["citations"][0]["quote"] == "The garden has 4 trees."
    assert [message.role for message in assistant.prompts[1]] == ["system", "user", "assistant", "user"]
    assert assistant.prompts[1][2].content == "The rent is 1,250 euros a month."
    assert assistant.owners == [document["conversation"]] * 2
    refused = octavo("ask", "--conversation", "last", "Why is the sky blue?", "--json")
    document = json.loads(refused.out)
    assert refused.code == 0
    assert (document["refused"], document["usage"], document["text"]) == (
        True,
        {},
        "The documents do not answer this.",
    )


def test_pages_with_text_of_several_documents_are_not_kept(ask: Callable[..., Any]) -> None:
    Path("other.md").write_text("# Other\n\nThe cellar has 2 doors.\n")
    assistant = Scripted("The cellar has 2 doors [C1].")
    forgotten: list[str] = []
    assistant.engine.forget = forgotten.append
    ask(assistant, "How many doors has the cellar?", "--doc", "other.md", "--mode", "search")
    assert forgotten == assistant.owners == ["documents"]


def test_how_far_a_document_is_read_is_told_once_a_step() -> None:
    from octavo.app.cli.asking import _watched

    sequence = SimpleNamespace(num_computed=0, num_prompt=900)
    assistant: Any = SimpleNamespace(engine=SimpleNamespace(sequences=(sequence,)))
    told: list[tuple[int, int]] = []
    step = _watched(assistant, lambda done, total: told.append((done, total)), lambda: bool(told[2:]))
    for computed in (256, 512, 901):
        sequence.num_computed = computed
        assert step() is (computed == 901)
    assert told == [(256, 900), (512, 900), (900, 900)]
    assistant.engine.sequences = ()
    step()
    assert len(told) == 3
