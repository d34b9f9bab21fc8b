"""`octavo models`: fetch, list, choose, inspect and remove models, and recommend some for this machine."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

from octavo.app.cli.output import echo_json
from octavo.app.cli.progress import announce, progress_bar
from octavo.app.errors import AppError, ModelNotFoundError
from octavo.app.models.text import human_size, human_tokens

if TYPE_CHECKING:
    from octavo.storage.paths import Paths


@click.group()
def command() -> None:
    """Fetch, list, choose, inspect and remove models."""


@command.command()
@click.argument("name", metavar="NAME|ORG/NAME[:FILE]")
@click.option("--offline", is_flag=True, default=None, help="Never download anything.")
def pull(name: str, offline: bool | None) -> None:
    """Fetch a model: a NAME from the catalogue, or a repository of the hub.

    From a repository with several GGUF files the Q4_K_M one is taken, unless :FILE names another (a file name
    or a quantization such as Q8_0). One without GGUF files is fetched as a safetensors folder. An interrupted
    fetch goes on where it stopped.
    """
    from octavo.app.models.catalogue import load_catalogue
    from octavo.app.models.repos import parse_repo_name, pull_repository
    from octavo.app.models.resolve import find_model, forbid_offline, open_registry, pull_entry

    paths, forbidden = _paths(), _offline(offline)
    registry = open_registry(paths)
    entry, repo = load_catalogue().get(name), parse_repo_name(name)
    with progress_bar() as progress:
        if entry is not None:
            path = pull_entry(entry, paths, offline=forbidden, announce=announce, progress=progress)
        elif repo is not None:
            forbid_offline(repo.repo, f"`octavo models pull {name}`", offline=forbidden)
            name, path = pull_repository(repo, paths.models_dir, registry, announce=announce, progress=progress)
        else:
            path = find_model(name, registry, paths.models_dir).path
    click.echo(path)
    announce(f"Use it with `--model {name}`, or make it the default with `octavo models use {name}`.")


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_models(as_json: bool) -> None:
    """List the catalogue, what was downloaded, local paths, and other programs' models."""
    from octavo.app.models.listing import list_all

    listing = list_all(_paths())
    if as_json:
        echo_json({"default": listing.default, "models": [item.as_json() for item in listing.models]})
        return
    rows: list[tuple[str, ...]] = [("", "NAME", "SIZE", "CONTEXT", "STATE", "NOTE")]
    for item in listing.models:
        mark = "*" if listing.default in (item.name, str(item.path)) else ""
        context = human_tokens(item.context) if item.context else ""
        rows.append((mark, item.name, human_size(item.size), context, item.state, item.note))
    _echo_table(rows)
    click.echo(f"\n* is used when no model is named. Downloads go to {_paths().models_dir}.")


@command.command()
@click.argument("name", metavar="NAME|PATH")
def use(name: str) -> None:
    """Make a model the default: a name, a .gguf file or a folder, which stays where it is."""
    from octavo.app.models.check import check_model
    from octavo.app.models.resolve import choose_default, find_model, open_registry

    paths = _paths()
    registry = open_registry(paths)
    model = find_model(name, registry, paths.models_dir)
    if model.present:
        check_model(model.path)
    elif model.entry is None:
        raise ModelNotFoundError(f"{model.name} was at {model.path}, and there is nothing there now.")
    choose_default(model, registry)
    click.echo(f"The default model is now {model.name} ({model.path}).")
    if not model.present and model.entry is not None:
        click.echo(f"It is fetched at its first use ({human_size(model.entry.size)}).")


@command.command()
@click.argument("name", metavar="NAME|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(name: str, as_json: bool) -> None:
    """Show what a model file says about itself."""
    from octavo.app.models.describe import describe
    from octavo.app.models.listing import origin_of
    from octavo.app.models.resolve import find_model, open_registry

    paths = _paths()
    registry = open_registry(paths)
    model = find_model(name, registry, paths.models_dir)
    if not model.present:
        fetch = f"; `octavo models pull {model.name}` fetches it" if model.entry else ""
        raise ModelNotFoundError(f"{model.name} is not on this machine{fetch}.")
    facts = describe(model.path)
    digest = registry.sha256(model.path) if model.path.is_file() else None
    origin = origin_of(model, registry)
    if as_json:
        echo_json({**facts.as_json(), "sha256": digest, "origin": origin})
        return
    for label, value in facts.as_rows():
        click.echo(f"{label:<14}{value}")
    if digest is not None:
        click.echo(f"{'sha256':<14}{digest}")
    click.echo(f"{'origin':<14}{origin}")


@command.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(name: str, yes: bool) -> None:
    """Delete a model that Octavo downloaded, or forget a local path (its files stay)."""
    from octavo.app.models.resolve import find_model, open_registry

    paths = _paths()
    registry = open_registry(paths)
    model = find_model(name, registry, paths.models_dir)
    if model.name in registry.local:
        registry.forget(model.name)
        click.echo(f"Forgot {model.name}; {model.path} stays where it is.")
        return
    downloads = [key for key, record in registry.downloads.items() if record.path == model.path]
    if not downloads:
        reason = "is not on this machine" if not model.present else "was not downloaded by Octavo"
        raise AppError(f"{model.name} {reason}, so there is nothing to remove ({model.path}).")
    if not yes and model.present:
        click.confirm(f"Delete {model.path}?", abort=True, err=True)
    if model.path.is_dir():
        shutil.rmtree(model.path)
    else:
        model.path.unlink(missing_ok=True)
    for key in downloads:
        registry.forget(key)
    click.echo(f"Removed {model.name}.")


@command.command()
@click.option("--context", type=click.IntRange(min=1), help="Tokens of context to make room for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def recommend(context: int | None, as_json: bool) -> None:
    """Name the models that fit this machine's memory, best first."""
    from octavo.app.models import recommend as advice
    from octavo.app.models.catalogue import load_catalogue

    paths, catalogue = _paths(), load_catalogue()
    memory = advice.measure_memory()
    tokens = context or advice.DEFAULT_CONTEXT
    present = [entry.id for entry in catalogue if (paths.models_dir / entry.file).exists()]
    items = advice.recommend(catalogue, memory, present, context=tokens)
    if as_json:
        echo_json({"context": tokens, "memory": memory.as_json(), "models": [item.as_json() for item in items]})
        return
    click.echo(advice.headline(memory, tokens) + "\n")
    rows: list[tuple[str, ...]] = [("NAME", "SIZE", "NEEDS", "RUNS ON", "WHY")]
    for item in items:
        needs, runs_on = human_size(item.total_bytes), (item.runs_on or "-").upper()
        rows.append((item.id, human_size(item.size), needs, runs_on, item.reason))
    _echo_table(rows)
    click.echo("\nNEEDS is weights, bfloat16 KV and a margin. `octavo models pull NAME` fetches one.")


def _paths() -> Paths:
    from octavo.storage.paths import Paths

    return Paths.from_environment()


def _offline(flag: bool | None) -> bool:
    from octavo.app.settings import load_settings

    return load_settings({"offline": flag}).offline


def _echo_table(rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; the last one is free."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
