"""`octavo bench fidelity`: what keeping K and V in fewer bits does to a model's predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.progress import count_bar

if TYPE_CHECKING:
    from octavo.engine.fidelity import CodecFidelity

_CODECS = ("k8v8", "k8v4", "k4v4")


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option(
    "--tokens",
    type=click.IntRange(64),
    default=4096,
    show_default=True,
    help="Length of each text; its second half is scored.",
)
@click.option("--texts", type=click.IntRange(1), default=1, show_default=True, help="Parts of the play to read.")
@click.option("--codec", "codecs", type=click.Choice(_CODECS), multiple=True, default=_CODECS, help="May be repeated.")
@click.option(
    "--compute",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="The type of products. bfloat16 adds a noise of its own to every difference.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def fidelity(model: str | None, tokens: int, texts: int, codecs: Sequence[str], compute: str, as_json: bool) -> None:
    """Perplexity of each KV codec on the bundled play, and how far its predictions are from those of bf16.

    KL is the mean divergence of the codec's predictions from bf16's, in nats a token; top-1 is how often both find
    the same token the likeliest.
    """
    name, rows = _measure({"model": model}, tokens, texts, codecs, compute)
    click.echo(f"{name}, {texts} x {tokens:,} tokens, {rows[0].positions:,} predictions, {compute}")
    click.echo(f"{'codec':<6} {'perplexity':>11} {'KL':>9} {'KL p99':>9} {'top-1':>8}")
    for row in rows:
        click.echo(f"{row.codec:<6} {row.perplexity:>11.3f} {row.kl:>9.5f} {row.kl_p99:>9.4f} {row.top1:>8.2%}")
    if as_json:
        document = {"model": name, "tokens": tokens, "texts": texts, "compute": compute}
        click.echo(json.dumps({**document, "rows": [asdict(row) for row in rows]}))


def _measure(
    flags: dict[str, str | None], tokens: int, texts: int, codecs: Sequence[str], compute: Any
) -> tuple[str, list[CodecFidelity]]:
    """The model's name, and a row for bf16 and for each codec."""
    from octavo.app.budgets import choose_device
    from octavo.app.cli.progress import announce, progress_bar
    from octavo.app.models.resolve import ensure_model, resolve_model
    from octavo.app.settings import load_settings
    from octavo.engine.fidelity import measure_fidelity
    from octavo.engine.tokenizer import Tokenizer
    from octavo.engine.weights.checkpoint import open_checkpoint
    from octavo.storage.paths import Paths

    settings, paths = load_settings(flags), Paths.from_environment()
    model = resolve_model(None, settings, paths)
    with progress_bar() as progress:
        ensure_model(model, paths, offline=settings.offline, announce=announce, progress=progress)
    device = choose_device(settings)
    checkpoint = open_checkpoint(model.path, device=device, quantization=settings.quantization)
    parts = _parts(Tokenizer(checkpoint.tokenizer).encode(_play()), tokens, texts, checkpoint.spec.context_length)
    total = texts * (len(codecs) + 1)
    with count_bar("texts computed") as bar:
        rows = measure_fidelity(
            checkpoint,
            parts,
            tokens // 2,
            list(codecs),  # type: ignore[arg-type]  # click has checked the names
            compute_dtype=compute,
            page_size=settings.page_size,
            device=device,
            done=lambda count: bar(count, total),
        )
    return model.name, rows


def _play() -> str:
    """The Merry Wives of Windsor, without what is said about the file."""
    lines = files("octavo.assets").joinpath("merry_wives.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def _parts(token_ids: list[int], tokens: int, texts: int, context: int) -> list[list[int]]:
    """Parts that follow one another. UsageError for more than there is, or than the model can read."""
    if tokens > context:
        raise click.UsageError(f"--tokens {tokens} is more than the {context:,} tokens of this model's context.")
    if tokens * texts > len(token_ids):
        raise click.UsageError(
            f"{texts} texts of {tokens:,} tokens are more than the play has, {len(token_ids):,} tokens; "
            "take fewer --texts or --tokens."
        )
    return [token_ids[at : at + tokens] for at in range(0, tokens * texts, tokens)]
