"""`octavo ask`: one question, streamed to standard output."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.explaining import tell_budgets, tell_reading
from octavo.app.cli.options import budget_options, opened_trace, trace_options
from octavo.app.cli.output import echo_json
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Answer
    from octavo.app.settings import Settings
    from octavo.engine.tokenizer import Message

CANCELLED = 130  # what a shell reports for a program that Ctrl+C ended


@click.command()
@click.argument("question", required=False)
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--conversation", metavar="ID|new|last", help="Ask as part of a stored conversation, or begin one.")
@click.option("--doc", "docs", multiple=True, metavar="FILE|DOC", help="Answer from this document; may be repeated.")
@click.option("--mode", type=click.Choice(["auto", "search", "read"]), help="Search a document, or read it whole.")
@click.option("--embedder", metavar="NAME", help="The sentence embedder for --doc: a folder, hub name, default or off.")
@click.option("--system", metavar="TEXT", help="The system prompt.")
@click.option("--temperature", type=float, help="0 is greedy; higher is more varied.")
@click.option("--top-k", type=int, help="Choose among the K most likely tokens; 0 is all.")
@click.option("--top-p", type=float, help="Choose among the tokens that make up this probability.")
@click.option("--min-p", type=float, help="Drop tokens below this share of the best one's probability.")
@click.option("--repetition-penalty", type=float, help="Above 1, tokens seen before become less likely.")
@click.option("--max-tokens", type=int, help="Longest answer, in tokens.")
@click.option("--stop", multiple=True, metavar="TEXT", help="End the answer before this text; may be repeated.")
@click.option("--seed", type=int, help="Repeat the same choices.")
@budget_options
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where the model runs.")
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
@trace_options
@click.option("-v", "--explain", is_flag=True, help="Say on standard error what memory is used, and what was read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the text.")
def command(
    question: str | None,
    conversation: str | None,
    docs: tuple[str, ...],
    mode: str | None,
    embedder: str | None,
    explain: bool,
    as_json: bool,
    trace: str | None,
    trace_text: bool,
    **flags: Any,
) -> int:
    """Ask one QUESTION and print the answer.

    Without QUESTION it is read from standard input. With both, standard input is the material the question is
    about: `octavo ask "What does this do?" < script.sh`.
    """
    from octavo.app.settings import load_settings

    prompt = _prompt(question)
    settings = load_settings(_as_settings(flags))
    if docs and conversation is not None:
        from octavo.app.cli.continuing import attach

        conversation = attach(conversation, docs, mode, embedder, settings)
    elif not docs and (mode is not None or embedder is not None):
        raise click.UsageError("--mode and --embedder need --doc.")
    answer: Answer | None
    with opened_trace(trace, with_text=trace_text) as traced:
        if conversation is not None:
            answer, document = _ask_in(conversation, prompt, settings, show=not as_json, explain=explain)
        elif docs:
            answer, document = _ask_docs(prompt, docs, settings, mode, embedder, show=not as_json, explain=explain)
        else:
            answer, document = _ask(prompt, settings, show=not as_json, explain=explain)
        if traced is not None:
            traced.write(document, prompt)
    if as_json:
        echo_json(document)
    if answer is not None and answer.error is not None:
        raise AppError(f"The answer broke off: {answer.error}.")
    return CANCELLED if answer is not None and answer.finish_reason == "cancelled" else 0


def _prompt(question: str | None) -> str:
    """The question, the piped material, or the material and then the question."""
    material = "" if sys.stdin is None or sys.stdin.isatty() else _read_stdin()
    prompt = "\n\n".join(text for text in (material, question or "") if text.strip())
    if not prompt:
        raise click.UsageError('There is nothing to ask; give a question, as in `octavo ask "What is ...?"`.')
    return prompt


def _read_stdin() -> str:
    """Standard input as UTF-8, whatever the locale says. Raises AppError naming the byte that is not."""
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise AppError(
            f"Standard input is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}); "
            "convert it first, for example with iconv."
        ) from None


def _as_settings(flags: dict[str, Any]) -> dict[str, object]:
    """Flags in the shape of the settings file; the policy's stand in its table [generation]."""
    generation = {
        name: flags.pop(name)
        for name in (
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "repetition_penalty",
            "max_tokens",
            "seed",
        )
    }
    stop = flags.pop("stop")
    return flags | {"generation": generation | {"stop": list(stop) or None}}


def _messages(system: str, prompt: str) -> list[Message]:
    from octavo.engine.tokenizer import Message

    return [Message("system", system)] * bool(system) + [Message("user", prompt)]


def _ask_docs(
    question: str,
    docs: tuple[str, ...],
    settings: Settings,
    mode: str | None,
    embedder: str | None,
    *,
    show: bool,
    explain: bool,
) -> tuple[Answer | None, dict[str, Any]]:
    """As `_ask`, from documents; a refusal is an answer, too."""
    from octavo.app.cli.asking import ask_documents

    with _interrupt_flag() as interrupted:
        found, document = ask_documents(
            question,
            docs,
            settings,
            mode=mode or "auto",
            embedder=embedder,
            show=show,
            explaining=explain,
            is_cancelled=lambda: bool(interrupted),
        )
    return found.answer, document


def _ask(prompt: str, settings: Settings, *, show: bool, explain: bool) -> tuple[Answer, dict[str, Any]]:
    """The answer, and it as the document --json prints."""
    from octavo.app.assistant.assistant import Answer
    from octavo.app.cli.opening import open_assistant

    assistant, name = open_assistant(settings)
    answer = None
    with closing(assistant):
        if explain:
            tell_budgets(assistant)
        with _interrupt_flag() as interrupted, _written(show=show) as write:
            messages, policy = _messages(settings.system, prompt), settings.generation.policy()
            for event in assistant.answer(messages, policy, is_cancelled=lambda: bool(interrupted)):
                if isinstance(event, Answer):
                    answer = event
                else:
                    write(event.text)
        assert answer is not None, "an answer always ends with its Answer"
        tell_reading(assistant, answer, explain=explain)
    return answer, answer.as_json(name)


def _ask_in(
    conversation: str, prompt: str, settings: Settings, *, show: bool, explain: bool
) -> tuple[Answer | None, dict[str, Any]]:
    """As `_ask`, with the question and the answer saved in a conversation; the document names both.

    Without an answer, documents that are open in the conversation do not have it.
    """
    from octavo.app.assistant.document_turn import RECORD
    from octavo.app.cli.continuing import opened_turn

    end = None
    with (
        opened_turn(conversation, settings, explain=explain) as ask,
        _interrupt_flag() as interrupted,
        _written(show=show) as write,
    ):
        for piece in ask(prompt, lambda: bool(interrupted)):
            if isinstance(piece, str):
                write(piece)
            else:
                end = piece
    assert end is not None, "what goes wrong is raised"
    answer, message = end
    from_documents = message.record.get(RECORD, {})
    how: dict[str, Any] = {"usage": {}, "finish_reason": "stop"} if answer is None else answer.record()
    ids = {"conversation": message.conversation_id, "message": message.id}
    memories = {"memories": message.record.get("memories")}
    return answer, {"text": message.text, "model": message.model, **from_documents, **how, **ids, **memories}


@contextmanager
def _written(*, show: bool) -> Iterator[Callable[[str], None]]:
    """Writes text to standard output as it comes, and ends its last line; Ctrl+C or not, what came is kept."""
    last = ""

    def write(text: str) -> None:
        nonlocal last
        last = text
        sys.stdout.write(text)
        sys.stdout.flush()

    yield write if show else lambda text: None
    if show and not last.endswith("\n"):
        click.echo()


@contextmanager
def _interrupt_flag() -> Iterator[list[int]]:
    """A list that the first Ctrl+C makes non-empty; a second one interrupts as usual."""
    interrupted: list[int] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
