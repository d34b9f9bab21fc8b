"""`octavo completion`: the script that teaches a shell to complete Octavo's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "octavo"
VARIABLE = "_OCTAVO_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  octavo completion bash > ~/.local/share/bash-completion/completions/octavo
    zsh:   octavo completion zsh > ~/.zfunc/_octavo
           (with `fpath+=~/.zfunc; autoload -Uz compinit; compinit` in ~/.zshrc)
    fish:  octavo completion fish > ~/.config/fish/completions/octavo.fish

    Then open a new shell.
    """
    from octavo.app.cli.main import cli

    script = get_completion_class(shell)
    assert script is not None, f"click knows {shell}"
    click.echo(script(cli, {}, PROGRAM, VARIABLE).source())
