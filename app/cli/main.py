"""The `octavo` command: its sub-commands by name, and the one place where an error becomes a sentence and a code.

A sub-command's module is imported when it runs, so `octavo --help` and shell completion never pay for torch.
"""

from __future__ import annotations

import importlib

import click

from octavo.app.errors import AppError

# name -> (module below octavo.app.cli, one-line help). The command is the attribute `command` of the module.
COMMANDS = {
    "ask": ("ask", "Ask one question; the answer streams to standard output."),
    "bench": ("bench", "Measure this machine: decode and prefill speed, memory."),
    "chat": ("chat", "Open the chat screen; the same as `octavo` alone."),
    "completion": ("completion", "Print the completion script for your shell."),
    "conversations": ("conversations", "List, show, search, export and delete conversations."),
    "docs": ("docs", "Add, list, show and remove the documents that can be asked about."),
    "doctor": ("doctor", "Say what was found on this machine, and what is wrong."),
    "memory": ("memory", "See, check, correct and undo what is remembered about you."),
    "models": ("models", "Fetch, list, choose, inspect and remove models."),
    "paths": ("paths", "Print the folders and files Octavo uses."),
    "plan": ("plan", "Say how much memory a model needs at a context length."),
    "stats": ("stats", "Sum up a trace of answers."),
    "store": ("store", "Look at the page store on the disk, check it, tidy it up, empty it."),
}


class LazyGroup(click.Group):
    """A click group whose sub-commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options without a command are the screen's: `octavo --model M` is `octavo chat --model M`."""
        own = {option for param in self.get_params(ctx) for option in param.opts}
        if args and args[0].startswith("-") and args[0] not in own:
            args = ["chat", *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"octavo.app.cli.{COMMANDS[cmd_name][0]}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="octavo", prog_name="octavo")
@click.pass_context
def cli(context: click.Context) -> int:
    """Octavo: a local assistant that never runs out of memory.

    Without a command it opens the chat screen.
    """
    if context.invoked_subcommand is not None:
        return 0
    code = context.invoke(importlib.import_module("octavo.app.cli.chat").command)
    assert isinstance(code, int)
    return code


def run() -> int:
    """Run the command line and return the exit code; every deliberate error is one sentence on stderr."""
    try:
        result = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except AppError as error:
        click.echo(f"Error: {error}", err=True)
        return error.exit_code
    except Exception as error:
        if not _is_deliberate(error):
            raise
        click.echo(f"Error: {error}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _is_deliberate(error: Exception) -> bool:
    """True for errors of engine and storage, whose texts are written for people."""
    from octavo.engine.errors import EngineError
    from octavo.storage.errors import StorageError

    return isinstance(error, (EngineError, StorageError))
