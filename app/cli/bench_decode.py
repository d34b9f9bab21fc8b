"""`octavo bench decode`: prefill and decode speed, beside another engine where one is asked for."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.engine.engine import Engine
    from octavo.engine.peer import Peer, PeerRun

_PEERS = ("llama.cpp", "transformers")
_RUNS_WITH_PEER = 5
_FORCED_TOKENS, _FORCED_FIRST = 96, 64


@dataclass(frozen=True, slots=True)
class Run:
    """One prompt: seconds of prefill, of the median decoded token, and bytes of KV that its last token read."""

    prefill_s: float
    decode_s: float
    kv_bytes: int


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option(
    "--context", type=click.IntRange(1), multiple=True, required=True, help="Prompt lengths in tokens, e.g. 512 2048."
)
@click.argument("more_contexts", type=click.IntRange(1), nargs=-1, metavar="[CONTEXT]...")
@click.option("--tokens", type=click.IntRange(2), default=64, show_default=True, help="Tokens to decode at each.")
@click.option("--threads", type=click.IntRange(1), help="Threads to compute with.")
@click.option("--kv-codec", type=click.Choice(["bf16", "k8v8", "k8v4", "k4v4"]), help="How KV pages are stored.")
@click.option("--dense", is_flag=True, help="Read every page, whatever the settings say.")
@click.option("--peer", "peer_name", type=click.Choice(_PEERS), help="Measure this engine too, run by run in turn.")
@click.option(
    "--runs", type=click.IntRange(1), help="Runs at each length, of which the median counts: 1, with --peer 5."
)
@click.option("--random-weights", metavar="SHAPE", help="Shapes of 135m, 0.5b, 1.5b, 3b or 8b, without a file.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def decode(
    model: str | None,
    context: tuple[int, ...],
    more_contexts: tuple[int, ...],
    tokens: int,
    threads: int | None,
    kv_codec: str | None,
    dense: bool,
    peer_name: Any,
    runs: int | None,
    random_weights: str | None,
    as_json: bool,
) -> None:
    """Prefill and decode speed at given context lengths, and what share of the memory's speed decoding reaches.

    With --peer both engines run the same file, the same prompts and as many threads, in turn; the other one with the
    better of its settings. First the logits of both are compared: without agreement nothing is timed.
    """
    from octavo.engine.bandwidth import measure_read_bandwidth
    from octavo.engine.hardware import peak_resident_bytes
    from octavo.engine.peer import Memory

    flags = {"model": model, "threads": threads, "kv_codec": kv_codec, "disk": "off"}
    if dense:
        flags["dense_limit"] = 0
    contexts = sorted({*context, *more_contexts})
    if peer_name and random_weights:
        raise click.UsageError("--peer needs a file; leave --random-weights out.")
    bandwidth, memory = measure_read_bandwidth(_device(flags)), Memory()
    engine, name, path = _open_random(random_weights, contexts[-1] + tokens, flags) if random_weights else _open(flags)
    _check_contexts(contexts, tokens, engine)
    with ExitStack() as stack:
        peers = _start_peers(stack, peer_name, path, contexts[-1] + tokens, engine)
        document: dict[str, Any] = {
            "model": name,
            "threads": engine.kernels.threads,
            "kv_codec": engine.config.kv_codec,
            "read_bandwidth_gb_s": round(bandwidth / 1e9, 1),
            "instruction_sets": {"octavo": _instruction_sets(engine)}
            | {peer.name: f"{peer.instruction_sets} ({peer.version})" for peer in peers[:1]},
        }
        _print_head(document, tokens)
        if peers:
            document["agreement"] = _check_agreement(engine, peers)
        _measure(engine, _random_prompt(engine, contexts[0]), tokens)  # warms caches, page faults, oneDNN's choices
        document["rows"] = []
        for length in contexts:
            row = _row(engine, peers, length, tokens, runs or (_RUNS_WITH_PEER if peers else 1))
            row["memory_mb"] = round(memory.peak()["bytes"] / 1e6, 1)
            row["peak_rss_mb"] = round(peak_resident_bytes() / 1e6, 1)
            row["bandwidth_share"] = round(row["bytes_per_token"] * row["decode_tok_s"] / bandwidth, 3)
            document["rows"].append(row)
            _print_row(row)
    if as_json:
        click.echo(json.dumps(document))


def _device(flags: dict[str, Any]) -> str:
    """Imports what opening a model needs, so that the libraries do not count as its memory."""
    from octavo.app.assistant.assistant import open_model  # noqa: F401
    from octavo.app.budgets import choose_device
    from octavo.app.settings import load_settings
    from octavo.engine.engine import Engine  # noqa: F401

    return choose_device(load_settings(flags))


def _open(flags: dict[str, Any]) -> tuple[Engine, str, Path]:
    from octavo.app.cli.opening import open_assistant
    from octavo.app.models.resolve import resolve_model
    from octavo.app.settings import load_settings
    from octavo.storage.paths import Paths

    settings = load_settings(flags)  # random prompts are not worth keeping
    assistant, name = open_assistant(settings)
    return assistant.engine, name, resolve_model(None, settings, Paths.from_environment()).path


def _open_random(shape: str, context: int, flags: dict[str, Any]) -> tuple[Engine, str, Path]:
    from octavo.app.budgets import choose_device
    from octavo.app.settings import load_settings
    from octavo.engine.config import EngineConfig
    from octavo.engine.engine import Engine
    from octavo.engine.weights.random_weights import RANDOM_MODELS, random_checkpoint

    if shape not in RANDOM_MODELS:
        raise click.UsageError(f"--random-weights takes {', '.join(RANDOM_MODELS)}, not {shape}.")
    settings = load_settings({key: value for key, value in flags.items() if key != "model"})
    device, page = choose_device(settings), settings.page_size
    checkpoint = random_checkpoint(shape, device)
    config = EngineConfig(
        page_size=page,
        prefill_chunk=settings.prefill_chunk,
        context=min(-(-(context + 1) // page) * page, checkpoint.spec.context_length),
        kv_codec=settings.kv_codec,
        compute_dtype=settings.compute_dtype,
        max_sequences=1,
        threads=settings.threads,
    )
    return Engine(checkpoint, config, device=device, fingerprint=checkpoint.spec.name), checkpoint.spec.name, Path()


def _check_contexts(contexts: Sequence[int], tokens: int, engine: Engine) -> None:
    longest = contexts[-1] + tokens
    if longest > engine.max_context:
        raise click.UsageError(
            f"--context {contexts[-1]} and {tokens} tokens to decode are {longest:,} tokens; this model and KV "
            f"budget hold {engine.max_context:,}."
        )


def _start_peers(stack: ExitStack, name: Any, path: Path, context: int, engine: Engine) -> list[Peer]:
    """One process for each choice of settings."""
    from octavo.engine.peer import VARIANTS, Peer

    if name is None:
        return []
    threads = engine.kernels.threads
    return [stack.enter_context(closing(Peer(name, each, path, context, threads))) for each in VARIANTS[name]]


def _instruction_sets(engine: Engine) -> str:
    from octavo.engine.hardware import measure_cpu

    own = engine.kernels.report["linear"]
    if engine.device != "cpu" or own.endswith("amx"):
        return own
    return f"{own}; prefill by torch with {' '.join(measure_cpu().features)}"


def _check_agreement(engine: Engine, peers: list[Peer]) -> dict[str, Any]:
    """How the likeliest tokens of both agree on a text. Raises AppError where they do not."""
    from octavo.engine.teacher import TOLERANCE, compare, forced_logits

    text = _random_prompt(engine, _FORCED_TOKENS, seed=1)
    ours, document = forced_logits(engine, text, _FORCED_FIRST), {}
    for peer in peers:
        found = compare(ours, peer.logits(text, _FORCED_FIRST))
        document[peer.variant] = {
            "positions": found.positions,
            "top1": round(found.agreeing / found.positions, 4),
            "decisive": found.decisive,
            "decisive_top1": round(found.decisive_agreeing / max(found.decisive, 1), 4),
            "max_difference": round(found.max_difference, 3),
            "mean_difference": round(found.mean_difference, 4),
        }
        click.echo(
            f"logits with {peer.name}, {peer.variant}: same likeliest token at {found.agreeing} of {found.positions} "
            f"positions, at {found.decisive_agreeing} of the {found.decisive} with a margin above {TOLERANCE:g}; "
            f"differences {found.mean_difference:.3f} on average, {found.max_difference:.2f} at most"
        )
        if not found.is_sound:
            raise AppError(f"{peer.name} ({peer.variant}) finds other tokens likely, so its speed says nothing.")
    return document


def _row(engine: Engine, peers: list[Peer], context: int, tokens: int, runs: int) -> dict[str, Any]:
    """Figures of one length: ours, and the better ones of the other engine's settings."""
    ours: list[Run] = []
    theirs: dict[str, list[PeerRun]] = {peer.variant: [] for peer in peers}
    for _ in range(runs):
        # A prompt of its own for every run, or the pages of the last run would be reused.
        prompt = _random_prompt(engine, context)
        ours.append(_measure(engine, prompt, tokens))
        for peer in peers:
            theirs[peer.variant].append(peer.run(prompt, tokens))
    prefill, decoding = (statistics.median(getattr(run, key) for run in ours) for key in ("prefill_s", "decode_s"))
    row: dict[str, Any] = {
        "context": context,
        "prefill_tok_s": round(context / prefill, 1),
        "decode_tok_s": round(1 / decoding, 1),
        "bytes_per_token": engine.token_weight_bytes + ours[-1].kv_bytes,
    }
    if peers:
        best, row["peer"] = _peer_figures(peers, theirs, context)
        row["prefill_ratio"] = round(best.prefill_s / prefill, 2)
        row["decode_ratio"] = round(best.decode_s / decoding, 2)
    return row


def _peer_figures(peers: list[Peer], runs: dict[str, list[PeerRun]], context: int) -> tuple[PeerRun, dict[str, Any]]:
    """The better of the medians of all settings, and how they are printed."""
    from octavo.engine.peer import PeerRun

    medians = {
        variant: PeerRun(
            statistics.median(run.prefill_s for run in of_variant),
            statistics.median(run.decode_s for run in of_variant),
        )
        for variant, of_variant in runs.items()
    }
    best = PeerRun(
        min(median.prefill_s for median in medians.values()), min(median.decode_s for median in medians.values())
    )
    memory = min(peer.memory() for peer in peers)
    return best, {
        "name": peers[0].name,
        **_speeds(best, context),
        "memory_mb": round(memory / 1e6, 1),
        "settings": {variant: _speeds(median, context) for variant, median in medians.items()},
    }


def _speeds(run: PeerRun, context: int) -> dict[str, float]:
    return {"prefill_tok_s": round(context / run.prefill_s, 1), "decode_tok_s": round(1 / run.decode_s, 1)}


def _measure(engine: Engine, prompt: list[int], tokens: int) -> Run:
    """Prefill a prompt nobody has seen, then decode; the median gap between tokens gives the decode rate."""
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.events import DoneEvent

    policy, pages = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=tokens), 0
    for event in engine.generate(prompt, policy):
        if isinstance(event, DoneEvent):
            metrics = event.metrics
        elif (read := engine.inspection.pages_read(event.request_id)) is not None:
            pages = read[0]
    kv_bytes = pages * engine.spec.num_layers * engine.cache.layout.slot_bytes
    return Run(metrics.prefill_s * len(prompt) / metrics.computed_tokens, metrics.itl_p50_ms / 1e3, kv_bytes)


def _random_prompt(engine: Engine, length: int, seed: int | None = None) -> list[int]:
    source = random.Random(seed)  # noqa: S311
    return [source.randrange(engine.spec.vocab_size) for _ in range(length)]


def _print_head(document: dict[str, Any], tokens: int) -> None:
    click.echo(
        f"{document['model']}, KV {document['kv_codec']}, {document['threads']} threads, {tokens} tokens decoded at "
        f"each context; memory is read at {document['read_bandwidth_gb_s']} GB/s"
    )
    for engine, sets in document["instruction_sets"].items():
        click.echo(f"{engine}: {sets}")


def _print_row(row: dict[str, Any]) -> None:
    click.echo(
        f"{row['context']:>8} tokens: prefill {row['prefill_tok_s']:.1f}, decode {row['decode_tok_s']:.1f} tokens/s; "
        f"{row['bytes_per_token'] / 1e6:.1f} MB a token, {row['bandwidth_share']:.0%} of the bandwidth; "
        f"memory {row['memory_mb']:.0f} MB"
    )
    if "peer" in row:
        peer = row["peer"]
        click.echo(
            f"{peer['name']:>15}: prefill {peer['prefill_tok_s']:.1f}, decode {peer['decode_tok_s']:.1f} tokens/s; "
            f"memory {peer['memory_mb']:.0f} MB; ratios {row['prefill_ratio']:.2f} and {row['decode_ratio']:.2f}"
        )
