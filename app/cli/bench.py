"""`octavo bench`: measurements a user can repeat; with --json the last line is one JSON document."""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from octavo.app.cli.bench_concurrent import concurrent
from octavo.app.cli.bench_consistency import consistency
from octavo.app.cli.bench_eviction import eviction
from octavo.app.cli.bench_fidelity import fidelity
from octavo.app.cli.bench_needle import needle
from octavo.app.cli.bench_reopen import reopen
from octavo.app.cli.bench_retrieval import retrieval
from octavo.app.cli.bench_screen import screen
from octavo.app.cli.bench_soak import soak
from octavo.app.cli.bench_startup import startup
from octavo.app.cli.bench_store import store
from octavo.app.cli.bench_summary import summary

if TYPE_CHECKING:
    from octavo.engine.engine import Engine


@click.group()
def command() -> None:
    """Measure this machine. Run one bench at a time, on a quiet machine."""


command.add_command(concurrent)
command.add_command(consistency)
command.add_command(eviction)
command.add_command(fidelity)
command.add_command(needle)
command.add_command(reopen)
command.add_command(retrieval)
command.add_command(screen)
command.add_command(soak)
command.add_command(startup)
command.add_command(store)
command.add_command(summary)


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """Speed at one context length. `peak_rss_mb` is the process's highest so far, in MB of 10^6 bytes."""

    context: int
    prefill_tok_s: float
    decode_tok_s: float
    peak_rss_mb: float


@command.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--context", type=click.IntRange(1), required=True, help="Prompt lengths in tokens, e.g. 512 2048.")
@click.argument("more_contexts", type=click.IntRange(1), nargs=-1, metavar="[CONTEXT]...")
@click.option("--tokens", type=click.IntRange(2), default=64, show_default=True, help="Tokens to decode at each.")
@click.option("--threads", type=click.IntRange(1), help="Threads to compute with.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def decode(
    model: str | None,
    context: int,
    more_contexts: tuple[int, ...],
    tokens: int,
    threads: int | None,
    as_json: bool,
) -> None:
    """Prefill and decode speed at given context lengths."""
    from octavo.app.cli.opening import open_assistant
    from octavo.app.settings import load_settings

    # Random prompts are not worth keeping.
    assistant, name = open_assistant(load_settings({"model": model, "threads": threads, "disk": "off"}))
    engine = assistant.engine
    contexts = sorted({context, *more_contexts})
    _check_contexts(contexts, tokens, engine)
    click.echo(f"{name}, {engine.kernels.report['linear']}, {tokens} tokens decoded at each context")
    click.echo(f"{'context':>8} {'prefill tok/s':>14} {'decode tok/s':>13} {'peak RSS MB':>12}")
    _measure(engine, contexts[0], tokens)  # warms caches, page faults and oneDNN's kernel choice
    rows = []
    for length in contexts:
        row = _measure(engine, length, tokens)
        rows.append(row)
        click.echo(f"{row.context:>8} {row.prefill_tok_s:>14.1f} {row.decode_tok_s:>13.1f} {row.peak_rss_mb:>12.0f}")
    if as_json:
        click.echo(json.dumps({"model": name, "rows": [asdict(row) for row in rows]}))


def _check_contexts(contexts: Sequence[int], tokens: int, engine: Engine) -> None:
    longest = contexts[-1] + tokens
    if longest > engine.max_context:
        raise click.UsageError(
            f"--context {contexts[-1]} and {tokens} tokens to decode are {longest:,} tokens; this model and KV "
            f"budget hold {engine.max_context:,}."
        )


def _measure(engine: Engine, context: int, tokens: int) -> DecodeRow:
    """Prefill a prompt nobody has seen, then decode; the median gap between tokens gives the decode rate."""
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.events import DoneEvent

    # A prompt of its own for every run, or the pages of the last run would be reused.
    prompt = [random.randrange(engine.spec.vocab_size) for _ in range(context)]  # noqa: S311
    policy = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=tokens)
    (done,) = [event for event in engine.generate(prompt, policy) if isinstance(event, DoneEvent)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return DecodeRow(
        context,
        round(done.metrics.computed_tokens / done.metrics.prefill_s, 1),
        round(1e3 / done.metrics.itl_p50_ms, 1),
        round(peak / 1e6, 1),
    )
