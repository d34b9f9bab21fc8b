"""`octavo bench fidelity --weights`: what storing weights in fewer bits does to a model's predictions, and buys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.progress import count_bar

if TYPE_CHECKING:
    from octavo.app.settings import Settings
    from octavo.engine.weights.checkpoint import Checkpoint

# Those of the engine's weight_fidelity.py, which is not imported where a command line is only read.
WEIGHT_FORMATS = (
    "stored", "one by one", "group-int8", "group-int4", "nf4", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0",
)  # fmt: skip


def measure_weight_formats(
    flags: dict[str, str | None], tokens: int, texts: int, formats: Sequence[str], compute: Any, *, as_json: bool
) -> None:
    """Print a row for bf16 and one for each format; see `measure_weights`."""
    from octavo.engine.weight_fidelity import measure_weights

    name, checkpoint, settings, device = open_for_fidelity(flags, unquantized=True)
    parts = parts_of(play_tokens(checkpoint), tokens, texts, checkpoint.spec.context_length)
    with count_bar("formats measured") as bar:
        rows = measure_weights(
            checkpoint,
            parts,
            tokens // 2,
            formats,
            compute_dtype=compute,
            page_size=settings.page_size,
            device=device,
            done=lambda count: bar(count, len(formats) + 1),
        )
    click.echo(f"{name}, {texts} x {tokens:,} tokens, {rows[0].positions:,} predictions, {compute}")
    click.echo(
        f"{'':<10} {'perplexity':>11} {'KL':>9} {'KL p99':>9} {'top-1':>8} {'weights':>10} {'TTFT':>9} {'a token':>10}"
    )
    for row in rows:
        click.echo(
            f"{row.format:<10} {row.perplexity:>11.3f} {row.kl:>9.5f} {row.kl_p99:>9.4f} {row.top1:>8.2%} "
            f"{row.weight_bytes / 1e6:>7.1f} MB {row.ttft_ms:>6.0f} ms {row.itl_ms:>7.1f} ms"
        )
    if as_json:
        document = {"model": name, "tokens": tokens, "texts": texts, "compute": compute}
        click.echo(json.dumps({**document, "rows": [asdict(row) for row in rows]}))


def open_for_fidelity(
    flags: dict[str, str | None], *, unquantized: bool = False
) -> tuple[str, Checkpoint, Settings, str]:
    """Name and weights of the model that the flags and settings name, fetched where it is missing; and the device.

    `unquantized` leaves the weights of a folder as they are.
    """
    from octavo.app.budgets import choose_device
    from octavo.app.cli.progress import announce, progress_bar
    from octavo.app.models.resolve import ensure_model, resolve_model
    from octavo.app.settings import load_settings
    from octavo.engine.weights.checkpoint import open_checkpoint
    from octavo.storage.paths import Paths

    settings, paths = load_settings(flags), Paths.from_environment()
    model = resolve_model(None, settings, paths)
    with progress_bar() as progress:
        ensure_model(model, paths, offline=settings.offline, announce=announce, progress=progress)
    device = choose_device(settings)
    quantization = "none" if unquantized and model.path.is_dir() else settings.quantization
    return model.name, open_checkpoint(model.path, device=device, quantization=quantization), settings, device


def play_tokens(checkpoint: Checkpoint) -> list[int]:
    """The Merry Wives of Windsor, without what is said about the file."""
    from octavo.engine.tokenizer import Tokenizer

    lines = files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8").splitlines()
    return Tokenizer(checkpoint.tokenizer).encode("\n".join(line for line in lines if not line.startswith("#")))


def parts_of(token_ids: list[int], tokens: int, texts: int, context: int) -> list[list[int]]:
    """Parts that follow one another. UsageError for more than there is, or than the model can read."""
    if tokens > context:
        raise click.UsageError(f"--tokens {tokens} is more than the {context:,} tokens of this model's context.")
    if tokens * texts > len(token_ids):
        raise click.UsageError(
            f"{texts} texts of {tokens:,} tokens are more than the play has, {len(token_ids):,} tokens; "
            "take fewer --texts or --tokens."
        )
    return [token_ids[at : at + tokens] for at in range(0, tokens * texts, tokens)]
