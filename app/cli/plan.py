"""`octavo plan`: the memory a model needs at a context length, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.errors import AppError, ModelNotFoundError, SettingsError
from octavo.app.models.text import human_size

if TYPE_CHECKING:
    from pathlib import Path

    from octavo.app.models.resolve import ResolvedModel
    from octavo.app.settings import Settings
    from octavo.engine.planner import MemoryPlan, ModelSizes

_LONGEST = 1_000_000_000
# Prefill multiplies in bfloat16 unless the settings say float32.
_COMPUTE_BYTES = {"auto": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class _Subject:
    """The model a plan is for. `path` is None where its file is not here and the catalogue had to do."""

    name: str
    sizes: ModelSizes
    weight_bytes: int
    trained_context: int
    path: Path | None


@dataclass(frozen=True)
class _Budget:
    """Bytes to stay below, and where that number comes from."""

    size: int
    origin: str


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option("--context", type=click.IntRange(1, _LONGEST), help="Tokens; the trained context if not given.")
@click.option("--vram", metavar="SIZE", help="Memory to stay below, such as 8GB or 6GiB; what is free if not given.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where the model runs.")
@click.option("--measure", is_flag=True, help="Load the model, compute, and compare with what that took.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    model: str | None, context: int | None, vram: str | None, device: str | None, measure: bool, as_json: bool
) -> None:
    """Say what a model needs: weights, KV cache and workspace, for each KV codec, and what is left.

    Nothing is downloaded, and without --measure nothing is loaded. The KV cache takes 2 x layers x KV heads x
    head size x bytes x tokens.
    """
    from octavo.app.settings import load_settings

    settings = load_settings({"model": model, "device": device})
    runs_on = _device(settings)
    budget = _budget(vram, runs_on)
    subject = _subject(settings, runs_on)
    tokens = context or subject.trained_context
    if subject.weight_bytes > budget.size:
        raise AppError(
            f"The weights of {subject.name} take {human_size(subject.weight_bytes)}, "
            f"{human_size(subject.weight_bytes - budget.size)} more than {_words(budget)}."
        )
    plans = _plans(subject, tokens, settings)
    measured = _measure(subject, tokens, settings, budget, plans[0]) if measure else None
    if tokens > subject.trained_context:
        click.echo(_beyond(subject, tokens), err=True)
    if as_json:
        echo_json(_document(subject, tokens, budget, plans, measured))
    else:
        _print(subject, tokens, budget, plans, measured)


def _plans(subject: _Subject, tokens: int, settings: Settings) -> list[MemoryPlan]:
    from octavo.engine.planner import plan_memory

    return plan_memory(
        subject.sizes,
        subject.weight_bytes,
        tokens,
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        compute_bytes=_COMPUTE_BYTES[settings.compute_dtype],
    )


def _measure(subject: _Subject, tokens: int, settings: Settings, budget: _Budget, plan: MemoryPlan) -> MemoryPlan:
    """The same as `plan`, of the model as it runs here."""
    from octavo.engine.hardware import choose_device
    from octavo.engine.measure import measure_memory

    if subject.path is None:
        raise ModelNotFoundError(
            f"{subject.name} is not on this machine, so it cannot be measured; "
            f"`octavo models pull {subject.name}` fetches it."
        )
    if plan.total > budget.size:
        raise AppError(
            f"{subject.name} at {tokens:,} tokens takes {human_size(plan.total)}, more than {_words(budget)}, "
            "so it is not loaded; measure a shorter --context."
        )
    return measure_memory(
        subject.path,
        tokens,
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        compute_dtype=settings.compute_dtype,
        device=choose_device(settings.device),
        quantization=settings.quantization,
    )


def _device(settings: Settings) -> str:
    """A plan may be for another machine, so a device that is not here is no error."""
    from octavo.engine.hardware import measure_gpus

    if settings.device != "auto":
        return settings.device
    return "cuda" if measure_gpus() else "cpu"


def _budget(vram: str | None, device: str) -> _Budget:
    from octavo.app import units
    from octavo.engine.hardware import measure_gpus, measure_ram

    if vram is not None:
        try:
            return _Budget(units.parse_size(vram), "--vram")
        except ValueError as error:
            raise SettingsError(f'--vram is "{vram}" ({error}); accepted is {units.ACCEPTED}.') from None
    gpus = measure_gpus()
    if device == "cuda" and gpus:
        best = max(gpus, key=lambda gpu: gpu.free)
        return _Budget(best.free, f"free on {best.name}")
    if device == "cuda":
        raise AppError("There is no GPU to measure; say how much memory it has, such as --vram 8GB.")
    return _Budget(measure_ram().available, "of RAM available")


def _subject(settings: Settings, device: str) -> _Subject:
    from octavo.app.models.resolve import resolve_model
    from octavo.engine.planner import read_model
    from octavo.storage.paths import Paths

    model = resolve_model(None, settings, Paths.from_environment())
    if model.present:
        spec, weight_bytes = read_model(model.path, device=device, quantization=settings.quantization)
        return _Subject(model.name, spec, weight_bytes, spec.context_length, model.path)
    return _from_catalogue(model)


def _from_catalogue(model: ResolvedModel) -> _Subject:
    from octavo.engine.planner import PlainSizes

    entry = model.entry
    if entry is None:
        raise ModelNotFoundError(f"{model.name} was at {model.path}, and there is nothing there now.")
    shape = entry.shape
    sizes = PlainSizes(
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        num_heads=shape.heads,
        num_kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocab,
    )
    return _Subject(model.name, sizes, entry.size, entry.context, None)


def _beyond(subject: _Subject, tokens: int) -> str:
    return (
        f"Warning: {subject.name} was trained on {subject.trained_context:,} tokens; {tokens:,} are planned, "
        f"but a prompt and its answer are held to {subject.trained_context:,}."
    )


def _words(budget: _Budget) -> str:
    size = human_size(budget.size)
    return f"the {size} of {budget.origin}" if budget.origin.startswith("--") else f"the {size} {budget.origin}"


def _print(
    subject: _Subject, tokens: int, budget: _Budget, plans: list[MemoryPlan], measured: MemoryPlan | None
) -> None:
    source = "" if subject.path else f" (not here yet: file size for weights; `octavo models pull {subject.name}`)"
    click.echo(f"{subject.name} at {tokens:,} tokens, within {_words(budget)}{source}\n")
    click.echo(f"{'KV codec':<10}{'weights':>10}{'KV':>10}{'workspace':>11}{'total':>10}{'left':>16}")
    for plan in plans:
        left = budget.size - plan.total
        shown = human_size(left) if left >= 0 else f"{human_size(-left)} short"
        click.echo(f"{_row(plan.codec, plan)}{shown:>16}")
    if measured is not None:
        click.echo(f"{_row('measured', measured)}   bf16 predicted {_error(plans[0], measured):+.1f} %")
    click.echo("\nbf16 is the codec in use; the others show what the same context takes in fewer bits.")


def _row(label: str, plan: MemoryPlan) -> str:
    weights, kv, workspace, total = map(human_size, (plan.weights, plan.kv, plan.workspace, plan.total))
    return f"{label:<10}{weights:>10}{kv:>10}{workspace:>11}{total:>10}"


def _error(plan: MemoryPlan, measured: MemoryPlan) -> float:
    """How far the prediction is above what was measured, in percent of the latter."""
    return round(100 * (plan.total / measured.total - 1), 2)


def _document(
    subject: _Subject, tokens: int, budget: _Budget, plans: list[MemoryPlan], measured: MemoryPlan | None
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "model": subject.name,
        "context": tokens,
        "trained_context": subject.trained_context,
        "budget_bytes": budget.size,
        "from_file": subject.path is not None,
        "rows": [
            {
                **_bytes(plan),
                "left_bytes": budget.size - plan.total,
                "fits": plan.total <= budget.size,
            }
            for plan in plans
        ],
    }
    if measured is not None:
        document["measured"] = {**_bytes(measured), "error_percent": _error(plans[0], measured)}
    return document


def _bytes(plan: MemoryPlan) -> dict[str, Any]:
    return {
        "codec": plan.codec,
        "weights_bytes": plan.weights,
        "kv_bytes": plan.kv,
        "workspace_bytes": plan.workspace,
        "total_bytes": plan.total,
    }
