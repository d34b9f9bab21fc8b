"""`octavo bench summary`: what a summary block saves in tokens and time, and what it keeps."""

from __future__ import annotations

import json
import statistics
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.engine.tokenizer import Message
    from octavo.storage.records import StoredMessage

_ANSWER_TOKENS = 24
_BUDGET = 512  # tokens of the block


@dataclass(frozen=True, slots=True)
class _Asked:
    """One way to ask every question: tokens of the prompt, milliseconds to the first token, right answers."""

    prompt_tokens: int
    first_token_ms: float
    facts: int
    answers: int


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def summary(model: str | None, as_json: bool) -> None:
    """History as it is against its summary block: tokens, time to the first token, and what is still known.

    A fact is kept if the prompt holds its words; an answer is right if it holds them. Nothing is reused between
    prompts.
    """
    from octavo.app.cli.opening import open_assistant
    from octavo.app.memory.summary import render, summarise
    from octavo.app.settings import load_settings

    assistant, name = open_assistant(load_settings({"model": model, "disk": "off"}))
    messages, questions = _conversation()
    block = render([summarise(messages)], _BUDGET, lambda text: len(assistant.tokenizer.encode(text)))
    before = _ask(assistant, _turns(messages), questions)
    after = _ask(assistant, _system(block), questions)
    document: dict[str, Any] = {"model": name, "questions": len(questions)}
    click.echo(f"{name}, {len(messages)} messages, {len(questions)} questions")
    click.echo(f"{'':<10} {'prompt tokens':>13} {'first token ms':>15} {'facts kept':>11} {'answers right':>14}")
    for label, row in (("before", before), ("after", after)):
        click.echo(
            f"{label:<10} {row.prompt_tokens:>13} {row.first_token_ms:>15.1f} "
            f"{row.facts:>8}/{len(questions):<2} {row.answers:>11}/{len(questions):<2}"
        )
        document[label] = {
            "prompt_tokens": row.prompt_tokens,
            "first_token_ms": row.first_token_ms,
            "facts_kept": row.facts,
            "answers_right": row.answers,
        }
    if as_json:
        click.echo(json.dumps(document))


def _conversation() -> tuple[list[StoredMessage], list[tuple[str, str]]]:
    from octavo.storage.records import StoredMessage

    with resources.files("octavo.assets").joinpath("summary_conversation.toml").open("rb") as stream:
        document = tomllib.load(stream)
    now = datetime.now(UTC).isoformat()
    messages = [
        StoredMessage(f"m{number:02}", "c", None, role, text, "complete", now, (), "", {})
        for number, (role, text) in enumerate(document["messages"])
    ]
    return messages, [(question, fact) for question, fact in document["questions"]]


def _turns(messages: list[StoredMessage]) -> list[Message]:
    from octavo.engine.tokenizer import Message

    return [Message(message.role, message.text) for message in messages]


def _system(block: str) -> list[Message]:
    from octavo.engine.tokenizer import Message

    return [Message("system", block)]


def _ask(assistant: Assistant, history: list[Message], questions: list[tuple[str, str]]) -> _Asked:
    from octavo.app.assistant.assistant import Answer
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.tokenizer import Message

    policy = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=_ANSWER_TOKENS)
    text = "\n".join(message.content for message in history)
    times, tokens, right = [], [], 0
    for number, (question, fact) in enumerate(questions):
        # Its first words differ every time, so that no page of an earlier prompt is reused.
        first = Message(history[0].role, f"({number}, {len(history)}) {history[0].content}")
        prompt = [first, *history[1:], Message("user", question)]
        answer = next(e for e in assistant.answer(prompt, policy) if isinstance(e, Answer))
        times.append(answer.metrics.ttft_s * 1e3)
        tokens.append(answer.metrics.prompt_tokens)
        right += fact.casefold() in answer.text.casefold()
    facts = sum(fact.casefold() in text.casefold() for _, fact in questions)
    return _Asked(round(statistics.mean(tokens)), round(statistics.median(times), 1), facts, right)
