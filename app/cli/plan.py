"""`octavo plan`: the memory a model needs at a context length, before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from octavo.app.cli.options import budget_options
from octavo.app.errors import AppError, ModelNotFoundError, SettingsError
from octavo.app.models.text import human_size

if TYPE_CHECKING:
    from octavo.app.budgets import Budgets
    from octavo.app.cli.plan_output import Limit
    from octavo.app.models.planned import PlannedModel
    from octavo.app.settings import Settings
    from octavo.engine.planner import MemoryPlan

_LONGEST = 1_000_000_000


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option(
    "--shape",
    metavar="NAME|PATH",
    help="Instead of a model: a published shape, such as llama-3.1-8b, or a config.json; no weights are needed.",
)
@click.option("--context", type=click.IntRange(1, _LONGEST), help="Tokens; the trained context if not given.")
@click.option(
    "--hot",
    type=click.IntRange(0, _LONGEST),
    metavar="TOKENS",
    help="Tokens whose KV pages are on the device, the rest in RAM or on disk; all if not given.",
)
@budget_options
@click.option(
    "--quantization",
    type=click.Choice(["auto", "nf4", "int8", "int4", "none"]),
    help="How the weights of a safetensors folder or a shape are held.",
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where the model runs.")
@click.option("--measure", is_flag=True, help="Load the model, compute, and compare with what that took.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    shape: str | None, context: int | None, hot: int | None, measure: bool, as_json: bool, **flags: str | None
) -> None:
    """Say what a model needs: weights, KV cache and workspace, for each KV codec, and what is left.

    Nothing is downloaded, and without --measure nothing is loaded. --vram is what the total is held against, what is
    free if it is not given.
    """
    from octavo.app.cli import plan_output
    from octavo.app.settings import load_settings

    if shape is not None and (measure or flags["model"]):
        raise click.UsageError("--shape is for a model that is not here: it goes with neither --model nor --measure.")
    settings = load_settings(flags)
    device = _device(settings)
    limit = _limit(settings, device)
    model = _planned(settings, shape, device)
    _check_weights(model, limit, shape)
    tokens = context or model.context
    plans = _plans(model, tokens, hot, settings, device)
    used = next(plan for plan in plans if plan.codec == settings.kv_codec)
    measured = _measure(model, tokens, hot, settings, limit, used) if measure else None
    if tokens > model.context:
        click.echo(plan_output.beyond(model, tokens), err=True)
    report = plan_output.PlanReport(
        model=model,
        context=tokens,
        hot=min(tokens if hot is None else hot, tokens),
        page_size=settings.page_size,
        limit=limit,
        plans=plans,
        used=used,
        plain=_plans(model, tokens, None, settings, device)[0],
        measured=measured,
        budgets=_budgets(model, settings, device) if shape is None else None,
    )
    if as_json:
        from octavo.app.cli.output import echo_json

        echo_json(report.as_json())
    else:
        report.print()


def _planned(settings: Settings, shape: str | None, device: str) -> PlannedModel:
    from octavo.app.models.planned import planned_model, planned_shape
    from octavo.storage.paths import Paths

    if shape is not None:
        return planned_shape(shape, device, settings.quantization)
    return planned_model(settings, Paths.from_environment(), device)


def _plans(model: PlannedModel, tokens: int, hot: int | None, settings: Settings, device: str) -> list[MemoryPlan]:
    from octavo.app.budgets import run_sizes
    from octavo.engine.planner import plan_memory

    return plan_memory(model.sizes, model.weight_bytes, tokens, hot=hot, run=run_sizes(settings, device))


def _budgets(model: PlannedModel, settings: Settings, device: str) -> Budgets | str:
    """What the model would get if it was run here with these settings, or why it would not run."""
    from octavo.app.budgets import measure_machine, resolve_budgets
    from octavo.storage.paths import Paths

    try:
        machine = measure_machine(Paths.from_environment())
        return resolve_budgets(settings, model.sizes, model.weight_bytes, model.context, device, machine)
    except SettingsError as error:
        return str(error)


def _measure(
    model: PlannedModel, tokens: int, hot: int | None, settings: Settings, limit: Limit, plan: MemoryPlan
) -> MemoryPlan:
    """The same as `plan`, of the model as it runs here."""
    from octavo.app.budgets import choose_device
    from octavo.engine.measure import measure_memory

    if model.path is None:
        raise ModelNotFoundError(
            f"{model.name} is not on this machine, so it cannot be measured; "
            f"`octavo models pull {model.name}` fetches it."
        )
    if plan.total > limit.size:
        raise AppError(
            f"{model.name} at {tokens:,} tokens takes {human_size(plan.total)}, more than {limit}, "
            "so it is not loaded; measure a shorter --context."
        )
    return measure_memory(
        model.path,
        tokens,
        hot=hot,
        codec=settings.kv_codec,
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        compute_dtype=settings.compute_dtype,
        device=choose_device(settings),
        quantization=settings.quantization,
    )


def _device(settings: Settings) -> str:
    """A plan may be for another machine, so a device that is not here is no error."""
    from octavo.engine.hardware import measure_gpus

    if settings.device != "auto":
        return settings.device
    return "cuda" if settings.vram != "off" and measure_gpus() else "cpu"


def _limit(settings: Settings, device: str) -> Limit:
    from octavo.app.cli.plan_output import Limit
    from octavo.engine.hardware import measure_gpus, measure_ram

    if isinstance(settings.vram, int):
        place = settings.sources.get("vram", "vram")
        return Limit(settings.vram, f"of {place if place.startswith('--') else f'vram in {place}'}", is_given=True)
    gpus = measure_gpus()
    if device == "cuda" and gpus:
        best = max(gpus, key=lambda gpu: gpu.free)
        return Limit(best.free, f"free on {best.name}", is_given=False)
    if device == "cuda":
        raise AppError("There is no GPU to measure; say how much memory it has, such as --vram 8GB.")
    return Limit(measure_ram().available, "of RAM available", is_given=False)


def _check_weights(model: PlannedModel, limit: Limit, shape: str | None) -> None:
    """Weights that do not fit need no plan, unless it is for some other machine."""
    if model.weight_bytes > limit.size and (limit.is_given or shape is None):
        raise AppError(
            f"The weights of {model.name} take {human_size(model.weight_bytes)}, "
            f"{human_size(model.weight_bytes - limit.size)} more than {limit}."
        )
