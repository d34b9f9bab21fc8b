"""`octavo bench consistency`: how often the memory's verdicts are right, and whether corrections arrive and stay."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from octavo.app.memory.check import Judge
    from octavo.app.memory.evaluation import Judged
    from octavo.storage.database import Database

_FACTS = 200  # memories beside which the time of a check is measured
_CHECKS = 60


@click.command()
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the generated pairs and of the replay.")
@click.option("--nli", metavar="FOLDER", help="A folder with an NLI model; `off` for rules only.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def consistency(seed: int, nli: str | None, as_json: bool) -> None:
    """Verdicts on pairs of statements, by rules and with an NLI model, and a replay of corrections.

    Two sets: one made from templates, seeded, and one written by hand, in English and Chinese, half of it held out.
    """
    from octavo.app.memory.evaluation import hand_written, judge_pairs
    from octavo.app.memory.generated import generate
    from octavo.app.memory.models import find_judge
    from octavo.app.memory.replay import replay
    from octavo.storage.database import open_database
    from octavo.storage.paths import Paths

    generated = generate(seed)
    seen, held_out = hand_written()
    with (
        tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder,
        open_database(Path(folder) / "octavo.db") as database,
    ):
        judge = find_judge(nli, Paths.from_environment(), database)
        document: dict[str, Any] = {"seed": seed, "model": None if judge is None else judge.name, "nli": None}
        if judge is not None:
            document["calibration"] = asdict(judge.calibration)
        for name, used in {"rules": None, "nli": judge}.items():
            if name == "nli" and used is None:
                continue
            parts = {
                "generated": judge_pairs(generated, used),
                "hand_written": judge_pairs([*seen, *held_out], used),
                "held_out": judge_pairs(held_out, used),
            }
            document[name] = _section(parts) | _check_time(database, used)
        document["replay"] = replay(seed, judge)
    _print(document)
    if as_json:
        click.echo(json.dumps(document))


def _section(parts: dict[str, list[Judged]]) -> dict[str, Any]:
    """The figures over both sets, and each set's."""
    from octavo.app.memory.evaluation import report

    both = report([*parts["generated"], *parts["hand_written"]])
    return both | {"sets": {name: report(results) for name, results in parts.items()}}


def _check_time(database: Database, judge: Judge | None) -> dict[str, float]:
    """The 95th percentiles of the milliseconds, by the clock and of the processor, of checking a statement that has 8
    candidates to be read."""
    from octavo.app.memory.keeper import Keeper

    keeper = Keeper(database, judge=judge)
    if not keeper.memories.list(limit=1):
        with database.atomic():
            for number in range(_FACTS):
                keeper.add(f"The kitchen of house {number} smells of {_SMELLS[number % len(_SMELLS)]}.")
    clock, processor = [], []
    for number in range(_CHECKS):
        # Words of its own every time, or the verdicts kept of the last round would be read instead.
        text = (
            f"The kitchen of house {number} smells of {_SMELLS[number % 7]} {'with' if judge else 'and'} mint {number}."
        )
        started, spent = time.perf_counter(), time.process_time()
        keeper.check(text)
        clock.append((time.perf_counter() - started) * 1e3)
        processor.append((time.process_time() - spent) * 1e3)
    # The first ones load the lexicon and the model.
    p95 = [round(statistics.quantiles(times[2:], n=20)[-1], 2) for times in (clock, processor)]
    return {"check_ms_p95": p95[0], "check_cpu_ms_p95": p95[1]}


_SMELLS = ("cinnamon", "basil", "paint", "soap", "smoke", "vanilla", "rain", "leather", "pine")


def _print(document: dict[str, Any]) -> None:
    click.echo(
        f"{'':<24} {'pairs':>6} {'accuracy':>9} {'false supersede':>16} {'conflict recall':>16} {'check p95':>10}"
    )
    for name in ("rules", "nli"):
        section = document[name]
        if section is None:
            click.echo("nli: no model; --nli FOLDER names one")
            continue
        for label, row in ((name, section), *((f"  {part}", section["sets"][part]) for part in section["sets"])):
            click.echo(
                f"{label:<24} {row['pairs']:>6} {row['accuracy']:>9.3f} {row['false_supersede']:>16.4f} "
                f"{row['conflict_recall']:>16.4f} {row.get('check_ms_p95', ''):>10}"
            )
        for verdict, shares in section["verdicts"].items():
            click.echo(f"    {verdict:<20} precision {shares['precision']:.3f}  recall {shares['recall']:.3f}")
    replay = document["replay"]
    click.echo(
        f"replay of {replay['stories']} corrections: uptake {replay['uptake']:.3f}, no resurrection "
        f"{replay['non_resurrection']:.3f}, collateral {replay['collateral']}, false apply {replay['false_apply']:.4f}"
    )
