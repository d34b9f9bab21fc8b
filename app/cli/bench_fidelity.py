"""`octavo bench fidelity`: what K and V in fewer bits, and reading only what matters, do to a model's predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.bench_weights import (
    WEIGHT_FORMATS,
    measure_weight_formats,
    open_for_fidelity,
    parts_of,
    play_tokens,
)
from octavo.app.cli.progress import count_bar

if TYPE_CHECKING:
    from octavo.app.settings import Settings
    from octavo.engine.fidelity import Fidelity, LengthFidelity, Variant
    from octavo.engine.weights.checkpoint import Checkpoint

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
@click.option("--past-trained", is_flag=True, help="Also read twice what the model was trained on.")
@click.option("--weights", is_flag=True, help="Compare weight formats instead of KV codecs; see --format.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(WEIGHT_FORMATS),
    multiple=True,
    default=WEIGHT_FORMATS,
    help="With --weights; may be repeated. `stored` is the model as it is, `one by one` the same with every token "
    "computed as those of an answer are.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def fidelity(
    model: str | None,
    tokens: int,
    texts: int,
    codecs: Sequence[str],
    compute: str,
    past_trained: bool,
    weights: bool,
    formats: Sequence[str],
    as_json: bool,
) -> None:
    """Perplexity of each KV codec on the bundled play, and how far its predictions are from those of bf16.

    KL is the mean divergence of the predictions from those with bf16 that read everything, in nats a token; top-1 is
    how often both find the same token the likeliest. The row "sparse" has bf16, and reads only what matters.

    With --weights the rows are weight formats, made of the weights that the model has, and compared with these
    weights in bf16; memory and the times of an answer stand beside.
    """
    if weights:
        measure_weight_formats({"model": model}, tokens, texts, formats, compute, as_json=as_json)
        return
    name, rows, length = _measure({"model": model}, tokens, texts, codecs, compute, past_trained)
    click.echo(f"{name}, {texts} x {tokens:,} tokens, {rows[0].positions:,} predictions, {compute}")
    click.echo(f"{'':<6} {'perplexity':>11} {'KL':>9} {'KL p99':>9} {'top-1':>8}")
    for row in rows:
        click.echo(f"{row.name:<6} {row.perplexity:>11.3f} {row.kl:>9.5f} {row.kl_p99:>9.4f} {row.top1:>8.2%}")
    if length is not None:
        click.echo(
            f"past the trained length: perplexity {length.beyond:.3f}, of the same {length.positions:,} tokens within "
            f"it {length.within:.3f}, ratio {length.beyond / length.within:.3f}"
        )
    if as_json:
        *codec_rows, sparse = [asdict(row) for row in rows]
        document = {"model": name, "tokens": tokens, "texts": texts, "compute": compute, "sparse": sparse}
        document |= {"past_trained": asdict(length)} if length else {}
        click.echo(json.dumps({**document, "rows": [{"codec": row.pop("name"), **row} for row in codec_rows]}))


def _measure(
    flags: dict[str, str | None], tokens: int, texts: int, codecs: Sequence[str], compute: Any, past_trained: bool
) -> tuple[str, list[Fidelity], LengthFidelity | None]:
    """The model's name, a row for bf16 and for every other way, and what is wanted past the trained length."""
    name, checkpoint, settings, device = open_for_fidelity(flags)
    play, context = play_tokens(checkpoint), checkpoint.spec.context_length
    parts = parts_of(play, tokens, texts, context)
    long = _long(play, context) if past_trained else None
    common = {"compute_dtype": compute, "page_size": settings.page_size, "device": device}
    return name, *_compute(checkpoint, parts, long, _variants(codecs, settings), common)


def _compute(
    checkpoint: Checkpoint,
    parts: list[list[int]],
    long: list[int] | None,
    variants: list[Variant],
    common: dict[str, Any],
) -> tuple[list[Fidelity], LengthFidelity | None]:
    from octavo.engine.fidelity import measure_fidelity, measure_past_trained

    total, length = len(parts) * len(variants), None
    with count_bar("texts computed") as bar:
        rows = measure_fidelity(
            checkpoint, parts, len(parts[0]) // 2, variants, done=lambda count: bar(count, total), **common
        )
    if long is not None:
        with count_bar("parts computed") as bar:
            length = measure_past_trained(checkpoint, long, done=lambda count: bar(count, 4), **common)
    return rows, length


def _variants(codecs: Sequence[str], settings: Settings) -> list[Variant]:
    """bf16, the codecs, and sparse attention from the first position that it can begin at."""
    from octavo.engine.config import AttentionConfig
    from octavo.engine.fidelity import Variant

    sparse = AttentionConfig(
        dense_limit=settings.page_size,
        window=settings.window,
        floor=min(AttentionConfig.floor, settings.selected),
        cap=settings.selected,
    )
    named = [Variant(name, name) for name in ("bf16", *codecs)]  # type: ignore[arg-type]  # click has checked them
    return [*named, Variant("sparse", attention=sparse)]


def _long(token_ids: list[int], context: int) -> list[int]:
    """Twice what the model was trained on. UsageError if the play is shorter."""
    if 2 * context > len(token_ids):
        raise click.UsageError(
            f"--past-trained needs {2 * context:,} tokens; the play has {len(token_ids):,} for this model."
        )
    return token_ids[: 2 * context]
