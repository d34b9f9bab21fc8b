"""`octavo bench concurrent`: many long conversations at once over a small device budget."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.options import budget_options

if TYPE_CHECKING:
    from octavo.engine.engine import Engine
    from octavo.engine.events import DoneEvent


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--conversations", type=click.IntRange(1, 1000), default=16, show_default=True)
@click.option("--tokens", type=click.IntRange(16), default=8192, show_default=True, help="Length of each prompt.")
@click.option("--answer", type=click.IntRange(2), default=32, show_default=True, help="Tokens of each answer.")
@budget_options
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def concurrent(
    model: str | None,
    conversations: int,
    tokens: int,
    answer: int,
    vram: str | None,
    ram: str | None,
    disk: str | None,
    kv_codec: str | None,
    as_json: bool,
) -> None:
    """All conversations asked at the same moment: how many finish, how long they wait, how steadily they answer.

    The rate counts tokens computed and generated. Inter-token latency is of answers that run while others' prompts
    are being read.
    """
    from dataclasses import replace

    from octavo.app.cli.opening import open_assistant
    from octavo.app.settings import load_settings
    from octavo.storage.paths import Paths, create_private

    flags = {"model": model, "vram": vram, "ram": ram, "disk": disk or "8GiB", "kv_codec": kv_codec}
    paths = Paths.from_environment()
    parent = create_private(paths.cache)
    with tempfile.TemporaryDirectory(prefix="bench-concurrent-", dir=parent, ignore_cleanup_errors=True) as folder:
        assistant, name = open_assistant(load_settings(flags), replace(paths, cache=Path(folder)))
        for note in assistant.budgets.notes if assistant.budgets else ():
            click.echo(note)
        result = _run(assistant.engine, conversations, tokens, answer)
        assistant.close()
    click.echo(
        f"{name}: {result['finished']} of {conversations} finished, {result['aggregate_tok_s']:.0f} tokens/s, "
        f"queue {result['queue_p50_s']:.1f} s median, {result['queue_p95_s']:.1f} s p95, "
        f"between tokens {result['itl_p50_ms']:.0f} ms median, {result['itl_p95_ms']:.0f} ms p95"
    )
    if as_json:
        click.echo(json.dumps({"model": name, **result}))


def _run(engine: Engine, conversations: int, tokens: int, answer: int) -> dict[str, Any]:
    """Every figure of one round."""
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.events import TokenEvent, percentile

    generator = random.Random(0)  # noqa: S311
    policy = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=answer)
    started = time.perf_counter()
    for number in range(conversations):
        prompt = [generator.randrange(engine.spec.vocab_size) for _ in range(tokens)]
        engine.submit(prompt, policy, owner=f"bench-{number}")
    times: dict[int, list[float]] = defaultdict(list)
    done: list[DoneEvent] = []
    while not engine.is_idle:
        for event in engine.step():
            if isinstance(event, TokenEvent):
                times[event.request_id].append(time.perf_counter())
            else:
                done.append(event)
    seconds = time.perf_counter() - started
    gaps = [(after - before) * 1e3 for each in times.values() for before, after in pairwise(each)]
    queued = [event.metrics.queue_s for event in done]
    finished = [event for event in done if event.finish_reason in ("length", "stop")]
    computed = sum(event.metrics.computed_tokens + event.metrics.generated_tokens for event in done)
    counters = engine.cache.tiers.counters
    return {
        "conversations": conversations,
        "tokens": tokens,
        "finished": len(finished),
        "failed": len(done) - len(finished),
        "errors": sorted({event.error for event in done if event.error}),
        "seconds": round(seconds, 2),
        "aggregate_tok_s": round(computed / seconds, 1),
        "queue_p50_s": round(percentile(queued, 0.5), 2),
        "queue_p95_s": round(percentile(queued, 0.95), 2),
        "itl_p50_ms": round(percentile(gaps, 0.5), 1),
        "itl_p95_ms": round(percentile(gaps, 0.95), 1),
        "stalls": counters.stalls,
        "streamed_layers": counters.streamed_layers,
    }
