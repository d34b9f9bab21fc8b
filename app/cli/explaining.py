"""What `octavo ask -v` says on stderr, and what has to be said even without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.app.cli.progress import announce

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Answer, Assistant


def tell_budgets(assistant: Assistant) -> None:
    """What memory was given to what, and why."""
    for note in assistant.budgets.notes if assistant.budgets is not None else ():
        announce(note)


def tell_reading(assistant: Assistant, answer: Answer, *, explain: bool) -> None:
    """Trouble with kept pages, and with `explain` where the prompt's tokens came from."""
    from octavo.app.assistant.usage import describe_reading

    for problem in assistant.take_problems():
        announce(problem)
    if explain:
        device = assistant.budgets.device if assistant.budgets is not None else "cpu"
        announce(f"Read: {describe_reading(answer.metrics, device)}.")
