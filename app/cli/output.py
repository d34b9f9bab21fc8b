"""What commands print on stdout for programs to read."""

from __future__ import annotations

import json
from typing import Any

import click


def echo_json(document: Any) -> None:
    """Print one JSON document; what JSON has no form for, such as a path, is printed as its text."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2, default=str))
