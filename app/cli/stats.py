"""`octavo stats`: what a trace says, summed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from octavo.app.cli.output import echo_json
from octavo.app.errors import AppError

_NAMES = {
    "queue_s": "waiting, s",
    "prefill_s": "reading the prompt, s",
    "ttft_s": "to the first token, s",
    "itl_p50_ms": "between tokens, p50, ms",
    "itl_p95_ms": "between tokens, p95, ms",
    "itl_p99_ms": "between tokens, p99, ms",
    "tokens_per_s": "tokens/s",
    "e2e_s": "whole answer, s",
}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(file: Path, as_json: bool) -> None:
    """Sum up a trace that `octavo chat --trace FILE` or `octavo ask --trace FILE` wrote."""
    from octavo.app.assistant.trace import read_trace, sum_up

    try:
        with file.open(encoding="utf-8") as lines:
            summary = sum_up(read_trace(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise AppError(f"The trace {file} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if as_json:
        echo_json(summary)
    else:
        click.echo("\n".join(_lines(summary)))


def _lines(summary: dict[str, Any]) -> list[str]:
    if not summary["answers"]:
        return ["There is no answer in this trace yet."]
    endings = ", ".join(f"{count:,} {name}" for name, count in summary["finish_reasons"].items())
    tokens, pages = summary["tokens"], summary["pages"]
    lines = [
        f"answers   {summary['answers']:,} ({endings})",
        f"models    {', '.join(f'{name} ({count:,})' for name, count in summary['models'].items())}",
        f"tokens    {tokens['prompt_tokens']:,} of prompts, {tokens['reused_tokens']:,} of them read before; "
        f"{tokens['generated_tokens']:,} generated",
        f"pages     {pages['total']:,}: {pages['device']:,} on the device, {pages['host']:,} in RAM, "
        f"{pages['disk']:,} on disk",
        f"{'':<26}{'p50':>10}{'p95':>10}{'p99':>10}",
    ]
    for name, spread in summary["timings"].items():
        figures = "".join(f"{spread[label]:>10,.{2 if name.endswith('_s') else 1}f}" for label in ("p50", "p95", "p99"))
        lines.append(f"{_NAMES[name]:<26}{figures}")
    return [*lines, *(f"error     {count:,} times: {error}" for error, count in summary["errors"].items())]
