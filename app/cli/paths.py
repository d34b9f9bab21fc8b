"""`octavo paths`: where everything is."""

from __future__ import annotations

import click

from octavo.app.cli.output import echo_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Print the folders and files Octavo uses, and which of them exist.

    OCTAVO_HOME puts all of them below one folder.
    """
    from pathlib import Path

    from octavo.storage.paths import SETTINGS_FILE, Paths

    paths = Paths.from_environment()
    places = dict(paths.folders())
    places |= {"models": paths.models_dir, "user_settings": paths.user_config_file}
    places |= {"project_settings": Path(SETTINGS_FILE).absolute()}
    if as_json:
        rows = {name: {"path": str(path), "exists": path.exists()} for name, path in places.items()}
        echo_json(rows)
        return
    for name, path in places.items():
        click.echo(f"{name.replace('_', ' '):<18}{path}{'' if path.exists() else '  (not there yet)'}")
