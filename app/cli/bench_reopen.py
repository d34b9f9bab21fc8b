"""`octavo bench reopen`: the first token of a long prompt, read for the first time and found on disk again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from octavo.app.cli.options import budget_options
from octavo.app.errors import AppError


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--tokens", type=click.IntRange(64), default=16_384, show_default=True, help="Length of the prompt.")
@click.option(
    "--runs", type=click.IntRange(1, 50), default=3, show_default=True, help="Warm starts; the median counts."
)
@budget_options
@click.option("--in-folder", type=click.Path(file_okay=False, path_type=Path), hidden=True)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def reopen(
    model: str | None,
    tokens: int,
    runs: int,
    vram: str | None,
    ram: str | None,
    disk: str | None,
    kv_codec: str | None,
    in_folder: Path | None,
    as_json: bool,
) -> None:
    """Time to the first token: read for the first time, and by a fresh process that finds the pages on disk.

    Each is a process of its own, timed from the loaded model on. Pages are read past the operating system's page
    cache where the disk allows that.
    """
    flags = {"model": model, "vram": vram, "ram": ram, "disk": disk or "8GiB", "kv_codec": kv_codec}
    if in_folder is not None:
        click.echo(json.dumps(_first_token(flags, tokens, in_folder)))
        return
    from octavo.storage.paths import Paths, create_private

    parent = create_private(Paths.from_environment().cache)
    with tempfile.TemporaryDirectory(prefix="bench-reopen-", dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        cold = _in_a_process(flags, tokens, folder)
        click.echo(f"cold: {cold['ttft_s']:.2f} s, {cold['computed_tokens']:,} tokens computed")
        warm = []
        for _ in range(runs):
            warm.append(_in_a_process(flags, tokens, folder))
            click.echo(
                f"warm: {warm[-1]['ttft_s']:.3f} s, {warm[-1]['reused_disk']:,} tokens from disk "
                f"({warm[-1]['bytes_read'] / 1e6:,.0f} MB), {warm[-1]['computed_tokens']} computed"
            )
    middle = sorted(warm, key=lambda run: run["ttft_s"])[len(warm) // 2]
    ratio = cold["ttft_s"] / middle["ttft_s"]
    click.echo(f"{cold['model']}, {tokens:,} tokens: {ratio:.0f} times faster to the first token")
    if as_json:
        result = {"cold_s": cold["ttft_s"], "warm_s": middle["ttft_s"], "ratio": round(ratio, 1)}
        click.echo(json.dumps(result | {key: middle[key] for key in ("bytes_read", "reused_disk", "direct", "model")}))


def _in_a_process(flags: dict[str, str | None], tokens: int, folder: Path) -> dict[str, Any]:
    given = [part for key, value in flags.items() if value for part in (f"--{key.replace('_', '-')}", value)]
    command = [sys.executable, "-m", "octavo.app", "bench", "reopen", "--tokens", str(tokens), *given]
    done = subprocess.run([*command, "--in-folder", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AppError(done.stderr.strip().splitlines()[-1].removeprefix("Error: ") if done.stderr else "A run failed.")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _first_token(flags: dict[str, str | None], tokens: int, folder: Path) -> dict[str, Any]:
    """One token after a prompt of random ids, the same in every process, with the page store in `folder`."""
    from dataclasses import replace

    from octavo.app.cli.opening import open_assistant
    from octavo.app.settings import load_settings
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.events import DoneEvent
    from octavo.storage.paths import Paths

    paths = replace(Paths.from_environment(), cache=folder)
    assistant, name = open_assistant(load_settings(flags), paths)
    engine = assistant.engine
    generator = random.Random(0)  # noqa: S311
    prompt = [generator.randrange(engine.spec.vocab_size) for _ in range(tokens)]
    policy = GenerationPolicy(temperature=0.0, max_tokens=1)
    (done,) = [event for event in engine.generate(prompt, policy, owner="bench") if isinstance(event, DoneEvent)]
    metrics = done.metrics
    if done.error:
        raise AppError(done.error)
    engine.close()
    stats = assistant.store.stats() if assistant.store else None
    assistant.close()
    return {
        "model": name,
        "ttft_s": round(metrics.ttft_s, 4),
        "reused_disk": metrics.reused_disk,
        "computed_tokens": metrics.computed_tokens,
        "bytes_read": stats.bytes_read if stats else 0,
        "direct": stats.direct if stats else False,
    }
