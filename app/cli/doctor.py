"""`octavo doctor`: what was found, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.models.text import human_size

# Numbers with these labels are bytes.
_BYTES = ("ram_total", "ram_available", "memory_total", "memory_free", "free", "size")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> int:
    """Say what was found on this machine, and what is wrong.

    Python, torch, GPU, kernels, memory, disk, folders, settings and where each comes from, models, budgets,
    environment.
    Exits with 1 if something is wrong.
    """
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
