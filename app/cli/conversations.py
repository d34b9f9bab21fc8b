"""`octavo conversations`: list, show, search, export and delete what was said."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octavo.app.cli.output import echo_json
from octavo.app.cli.progress import announce
from octavo.app.cli.stored import SHORT_ID, find_conversation, open_conversations
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.storage.conversations import Conversation, Conversations

_ID = "ID is a conversation's id, the beginning of one (4 characters or more), or `last`."


@click.group(epilog=_ID)
def command() -> None:
    """List, show, search, export and delete conversations."""


@command.command(name="list")
@click.argument("words", nargs=-1)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most this many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_conversations(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List conversations, the newest first; with WORDS only those that hold them all."""
    from octavo.storage.database import DatabaseMissingError

    try:
        with open_conversations(write=False) as conversations:
            found = conversations.list(limit=limit + 1, query=" ".join(words))
    except DatabaseMissingError:
        found = []
    shown = found[:limit]
    if as_json:
        echo_json([asdict(conversation) for conversation in shown])
        return
    if not shown:
        click.echo("No conversation holds these words." if words else "There are no conversations yet.")
        return
    click.echo(f"{'ID':<{SHORT_ID}}  {'UPDATED':<16}  {'MESSAGES':>8}  TITLE")
    for conversation in shown:
        click.echo(
            f"{conversation.id[:SHORT_ID]}  {_local_time(conversation.updated)}  "
            f"{conversation.num_messages:>8}  {_title(conversation)}"
        )
    if len(found) > limit:
        click.echo(f"\nThere are more; --limit {limit * 2} shows the next ones too.")


@command.command(epilog=_ID)
@click.argument("conversation", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print every branch as one JSON document.")
def show(conversation: str, as_json: bool) -> None:
    """Print a conversation as Markdown."""
    with open_conversations(write=False) as conversations:
        found = find_conversation(conversations, conversation)
        click.echo(_document(conversations, found, "json" if as_json else "md"), nl=False)


@command.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Show at most this many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find the messages that hold all WORDS, the best match first."""
    from octavo.storage.database import DatabaseMissingError

    try:
        with open_conversations(write=False) as conversations:
            hits = conversations.search(" ".join(words), limit=limit)
    except DatabaseMissingError:
        hits = []
    if as_json:
        echo_json([asdict(hit) | {"snippet": _marked(hit.snippet, "", "")} for hit in hits])
        return
    if not hits:
        click.echo("No message holds these words.")
    for hit in hits:
        click.echo(f"{hit.conversation_id[:SHORT_ID]}  {hit.title or 'Untitled conversation'}")
        click.echo("    " + " ".join(_marked(hit.snippet, *_bold()).split()))


@command.command(epilog=_ID)
@click.argument("conversation", metavar="ID")
@click.option("--format", "form", type=click.Choice(["md", "json"]), help="By default what FILE ends with, else md.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
def export(conversation: str, form: str | None, output: Path | None) -> None:
    """Write a conversation as Markdown (the branch last read) or JSON (every branch)."""
    form = form or ("json" if output is not None and output.suffix == ".json" else "md")
    with open_conversations(write=False) as conversations:
        found = find_conversation(conversations, conversation)
        document = _document(conversations, found, form)
    if output is None:
        click.echo(document, nl=False)
        return
    try:
        output.write_text(document, encoding="utf-8")
    except OSError as error:
        raise AppError(f"{output} could not be written: {error.strerror or error}.") from error
    click.echo(f"Wrote “{_title(found)}” to {output}.", err=True)


@command.command(epilog=_ID)
@click.argument("given", nargs=-1, required=True, metavar="ID...")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(given: tuple[str, ...], yes: bool) -> None:
    """Delete conversations with all their branches, and what is kept on the disk of having read them."""
    from octavo.app.assistant.forgetting import delete_conversation, forget, noted
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    with open_conversations(write=True) as conversations:
        found = {found.id: found for found in (find_conversation(conversations, item) for item in given)}
        for conversation in found.values():
            if not yes:
                messages = f"{conversation.num_messages} message{'' if conversation.num_messages == 1 else 's'}"
                click.confirm(f"Delete “{_title(conversation)}” ({messages})?", abort=True, err=True)
            delete_conversation(conversations, paths, conversation.id)
            result = forget(paths, conversation.id)
            freed = f" {result.freed()} are free again." if result.freed() else ""
            click.echo(f"Deleted “{_title(conversation)}”.{freed}")
            if result.problem:
                announce(result.problem)
        for conversation_id in noted(paths):  # of earlier times, when that was not possible
            if conversation_id not in found:
                forget(paths, conversation_id)


def _document(conversations: Conversations, conversation: Conversation, form: str) -> str:
    from octavo.storage.export import to_json, to_markdown

    if form == "md":
        return to_markdown(conversation, conversations.path(conversation.id))
    return json.dumps(to_json(conversation, conversations.tree(conversation.id)), ensure_ascii=False, indent=2) + "\n"


def _title(conversation: Conversation) -> str:
    return conversation.title or "Untitled conversation"


def _local_time(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def _bold() -> tuple[str, str]:
    """What begins and ends bold type on a terminal; click leaves it away where the output is redirected."""
    begin, end = click.style("|", bold=True).split("|")
    return begin, end


def _marked(snippet: str, begin: str, end: str) -> str:
    from octavo.storage.fulltext import MATCH_END, MATCH_START

    return snippet.replace(MATCH_START, begin).replace(MATCH_END, end)
