"""The slash commands: what they are called, what they take, and which of them an input means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command, which the chat screen's method `command_<name>(argument)` runs.

    An `argument` in brackets may be left out.
    """

    name: str
    help: str
    argument: str = ""
    keys: str = ""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")


COMMANDS = (
    SlashCommand("help", "Keys and commands", keys="F1"),
    SlashCommand("new", "Start a new conversation", keys="Ctrl+N"),
    SlashCommand("model", "Choose the model", "[name]", keys="F4"),
    SlashCommand("open", "Open a file or folder and ask about it", "[path]"),
    SlashCommand("docs", "See, open, close and remove documents", keys="F5"),
    SlashCommand("budgets", "See what memory and disk the model may take, and takes"),
    SlashCommand("rename", "Rename this conversation", "[title]", keys="F8"),
    SlashCommand("inspect", "See where every page of this conversation is, and what was read", keys="F2"),
    SlashCommand("close", "Leave this conversation; its pages leave the device now"),
    SlashCommand("delete", "Delete this conversation"),
    SlashCommand("export", "Write this conversation to a file (.md or .json)", "[file]"),
    SlashCommand("copy", "Copy the last answer, or its last code block", "[code]"),
    SlashCommand("regenerate", "Answer the last question again", keys="Ctrl+R"),
    SlashCommand("edit", "Edit your last message and ask again", keys="Ctrl+E"),
    SlashCommand("evidence", "See where the last answer comes from"),
    SlashCommand("source", "Open what the last answer cites", "[number]"),
    SlashCommand("branch", "Go to the next branch of this conversation"),
    SlashCommand("system", "See or set the system prompt of this conversation", "[text]"),
    SlashCommand("remember", "Remember something about you", "text"),
    SlashCommand("forget", "Forget a memory for good", "[words]"),
    SlashCommand("memories", "See what is remembered", "[words]"),
    SlashCommand("conflicts", "Decide what does not fit together in the memory", keys="F6"),
    SlashCommand("undo", "Take back the last change of the memory", keys="F7"),
    SlashCommand("search", "Search all conversations", "[text]", keys="F3"),
    SlashCommand("theme", "Choose the colours", "[name]"),
    SlashCommand("sidebar", "Show or hide the conversations", keys="Ctrl+B"),
    SlashCommand("suspend", "Put Octavo into the background; `fg` brings it back"),
    SlashCommand("quit", "Leave Octavo", keys="Ctrl+Q"),
)


def completions(text: str) -> list[SlashCommand]:
    """Commands the beginning of an input could become, best first; none unless it begins with a slash."""
    if not text.startswith("/") or any(character.isspace() for character in text):
        return []
    typed = text[1:].casefold()
    first = [command for command in COMMANDS if command.name.startswith(typed)]
    return first + [command for command in COMMANDS if typed in command.name and command not in first]


def parse(text: str) -> tuple[SlashCommand, str] | None:
    """The command and its argument, if the input is one: `/name` or an unambiguous beginning, on one line."""
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    matches = [command for command in COMMANDS if command.name.startswith(name.casefold())] if name else []
    exact = [command for command in matches if command.name == name.casefold()]
    found = exact or (matches if len(matches) == 1 else [])
    return (found[0], argument.strip()) if found else None


def is_command(text: str) -> bool:
    """True if the input looks like a command, known or not: `/word`, but no path such as /etc/hosts."""
    word = text[1:].split(maxsplit=1)[0] if text.startswith("/") and len(text) > 1 and not text[1].isspace() else ""
    return bool(word) and word.isalpha() and "\n" not in text.strip()
