"""`octavo bench needle`: what a model still finds in a long text, and what finding it costs."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octavo.app.cli.options import budget_options
from octavo.app.needle.contexts import MOST_DEPTHS, NEEDLE_TASKS, TASKS, even_depths, needle_context, word_context
from octavo.app.needle.haystacks import HAYSTACKS

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.needle.measuring import Asked
    from octavo.app.needle.task import Context
    from octavo.app.settings import Settings


@click.command()
@click.option("--model", metavar="NAME|PATH", help="A model's name, .gguf file or folder.")
@click.option(
    "--tokens",
    type=click.IntRange(128),
    multiple=True,
    required=True,
    help="Lengths of prompt and answer together, e.g. 4096 8192.",
)
@click.argument("more_tokens", type=click.IntRange(128), nargs=-1, metavar="[TOKENS]...")
@click.option(
    "--depths",
    type=click.IntRange(1, MOST_DEPTHS),
    default=10,
    show_default=True,
    help="Places that are asked for, in equal parts from beginning to end.",
)
@click.option("--task", "tasks", type=click.Choice(TASKS), multiple=True, default=("single",), help="May be repeated.")
@click.option(
    "--haystack",
    "haystacks",
    type=click.Choice(tuple(HAYSTACKS)),
    multiple=True,
    default=("sentences",),
    help="What needles are hidden in; the word counts are texts of their own. May be repeated.",
)
@click.option(
    "--dense-limit", type=click.IntRange(1), help="Read sparsely from this position on, not from the trained length on."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another one makes other texts.")
@click.option("--threads", type=click.IntRange(1), help="Threads to compute with.")
@budget_options
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file that keeps the rows of every finished text; those it has are not measured again. With --disk, pages "
    "of an unfinished one stay beside it.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def needle(
    tokens: tuple[int, ...],
    more_tokens: tuple[int, ...],
    depths: int,
    tasks: tuple[str, ...],
    haystacks: tuple[str, ...],
    seed: int,
    results: Path | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """What is found in texts of given lengths, by exact match, with greedy answers.

    One text carries the needles of all depths. It is read once, and the questions are asked over the same pages. Up to
    the length that the model was trained on everything is read, unless --dense-limit says otherwise.
    """
    from dataclasses import replace

    from octavo.app.cli.opening import open_assistant
    from octavo.app.needle.finished import FinishedRows
    from octavo.app.needle.measuring import as_rows, ask_all
    from octavo.app.settings import load_settings
    from octavo.storage.paths import Paths

    finished = FinishedRows(results) if results else None
    with _page_folder(results) as folder:
        lengths = sorted({*tokens, *more_tokens})
        settings = load_settings({**flags, "disk": flags["disk"] or "off", "context": lengths[-1]})
        assistant, name = open_assistant(settings, replace(Paths.from_environment(), cache=folder))
        try:
            _check_lengths(lengths, assistant.engine.max_context)
            texts = [
                (task, haystack)
                for task in dict.fromkeys(tasks)
                for haystack in (dict.fromkeys(haystacks) if task in NEEDLE_TASKS else (None,))
            ]
            rows = []
            for (task, haystack), length in product(texts, lengths):
                context = _context(assistant, task, haystack, length, depths, seed)
                made_with = {"text": context.fingerprint(), **_computed_with(assistant, settings)}
                done = finished.find(made_with) if finished else None
                if done is None:
                    done = as_rows(task, haystack, length, ask_all(assistant, context, length, _tell))
                    if finished:
                        finished.add(made_with, done)
                click.echo(_summary(done))
                rows += done
        finally:
            assistant.close()
    if as_json:
        click.echo(json.dumps({"model": name, "seed": seed, "rows": rows}))


@contextmanager
def _page_folder(results: Path | None) -> Iterator[Path]:
    """A folder for the page store: one of its own that goes in any case, or one that stays for as long as it may help.

    Beside a file of results it outlives a run that was ended, so that the next one finds the pages.
    """
    from octavo.storage.paths import Paths, create_private

    if results is None:
        folder = Path(tempfile.mkdtemp(prefix="bench-needle-", dir=create_private(Paths.from_environment().cache)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    else:
        folder = create_private(results.absolute().with_name(results.name + ".pages"))
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def _check_lengths(lengths: list[int], max_context: int) -> None:
    if lengths[-1] > max_context:
        raise click.UsageError(
            f"--tokens {lengths[-1]} is more than this model and KV budget hold, {max_context:,}; take less, or raise "
            "--vram, --ram or --disk."
        )


def _computed_with(assistant: Assistant, settings: Settings) -> dict[str, Any]:
    """What decides a row beside its text: model, codec and attention, for which the cache has a hash; and budgets."""
    engine = assistant.engine
    budgets = {"vram": settings.vram, "ram": settings.ram, "disk": settings.disk, "threads": settings.threads}
    return {"root": engine.cache.table.root.hex(), "kernels": engine.kernels.report, **budgets}


def _context(assistant: Assistant, task: str, haystack: str | None, tokens: int, depths: int, seed: int) -> Context:
    if haystack is None:
        return word_context(assistant.tokenizer, task, tokens, seed)
    return needle_context(assistant.tokenizer, task, haystack, tokens, even_depths(depths), seed)


def _tell(asked: Asked) -> None:
    place = "" if asked.question.depth is None else f" at {asked.question.depth:.1%}"
    click.echo(f"  {asked.found} of {len(asked.question.expected)}{place}: {' '.join(asked.text.split())[:60]}")


def _summary(rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    found, total = sum(row["found"] for row in rows), sum(row["total"] for row in rows)
    return (
        f"{first['task']}, {first['haystack'] or 'words'}, {first['tokens']:,} tokens: {found} of {total} found, "
        f"prefill {first['prefill_tok_s']} tokens/s, decode {first['decode_tok_s']} tokens/s, "
        f"{first['pages_read']:,} of {first['pages_total']:,} pages read, {first['device_peak_mb']} MB on the device"
    )
