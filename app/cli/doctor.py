"""`octavo doctor`: what was found, and what is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.models.text import human_size

if TYPE_CHECKING:
    from octavo.app.assistant.snapshot import Snapshot
    from octavo.app.settings import Settings
    from octavo.storage.paths import Paths
    from octavo.storage.records import StoredMessage

# Numbers with these labels are bytes.
_BYTES = ("ram_total", "ram_available", "memory_total", "memory_free", "free", "size")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--memory", is_flag=True, help="Instead: what to look at, in order, when memory runs out.")
def command(as_json: bool, memory: bool) -> int:
    """Say what was found on this machine, and what is wrong.

    Python, torch, GPU, kernels, memory, disk, folders, settings and where each comes from, models, budgets,
    environment.
    Exits with 1 if something is wrong.
    """
    if memory:
        return _memory(as_json=as_json)
    from octavo.app.doctor import examine

    report = examine()
    if as_json:
        echo_json(report.as_json())
    else:
        for part, facts in report.facts.items():
            click.echo(part)
            for line in _lines(part, facts):
                click.echo(f"  {line}")
        click.echo()
        for problem in report.problems:
            click.echo(f"Problem: {problem.what}\n  {problem.remedy}")
        if not report.problems:
            click.echo("Nothing is wrong.")
    return 1 if report.problems else 0


def _memory(*, as_json: bool) -> int:
    """The triage of memory, with the model loaded for a moment if it is here: what can be measured is."""
    from octavo.app.budgets import choose_device
    from octavo.app.models.planned import planned_model
    from octavo.app.settings import load_settings
    from octavo.app.triage import Case, as_text, examine_memory
    from octavo.app.triage import as_json as steps_json
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    settings = load_settings(paths=paths)
    device = choose_device(settings)
    model = planned_model(settings, paths, device)
    answers, titles = _stored_answers(paths)
    snapshot = _measured(settings, paths) if model.path is not None else None
    steps = examine_memory(Case(settings, model, device, answers, snapshot, titles))
    echo_json(steps_json(steps)) if as_json else click.echo(as_text(steps))
    return 0


def _stored_answers(paths: Paths) -> tuple[list[StoredMessage], dict[str, str]]:
    """The newest answers, and the titles of their conversations."""
    from octavo.storage.conversations import Conversations
    from octavo.storage.database import open_database

    if not paths.database_file.exists():
        return [], {}
    database = open_database(paths.database_file, write=False)
    with contextlib.closing(database):
        conversations = Conversations(database)
        answers = conversations.newest_answers()
        return answers, conversations.titles({answer.conversation_id for answer in answers})


def _measured(settings: Settings, paths: Paths) -> Snapshot:
    """The figures of an engine that has just been loaded; its page store stays closed."""
    from octavo.app.assistant.assistant import open_model
    from octavo.app.assistant.snapshot import take_snapshot
    from octavo.app.models.resolve import resolve_model

    model = resolve_model(None, settings, paths)
    with contextlib.closing(open_model(model, settings.model_copy(update={"disk": "off"}), paths)) as assistant:
        return take_snapshot(assistant, model.name)


def _lines(part: str, facts: dict[str, Any]) -> Iterator[str]:
    for label, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield label.replace("_", " ")
            yield from (f"  {_row(item)}" for item in value)
        else:
            # Settings and variables are shown as they are written.
            shown = label if part in ("settings", "environment", "kernels", "gpu kernels") else label.replace("_", " ")
            yield f"{shown:<31} {_text(label, value)}"
    if not facts:
        yield "nothing found"


def _row(item: dict[str, Any]) -> str:
    name, *rest = item.items()
    shown = (f"{label.replace('_', ' ')} {_text(label, value)}" for label, value in rest)
    return ", ".join([str(name[1]), *shown])


def _text(label: str, value: Any) -> str:
    if label in _BYTES and isinstance(value, int):
        return human_size(value)
    if isinstance(value, dict):
        if "why" in value:
            return str(value["why"])
        if "source" in value:
            return f"{_text('', value['value']):<16}  {value['source']}"
        return ", ".join(_text(key, item) for key, item in value.items() if item not in (None, ""))
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)
