"""What `octavo ask -v` says on stderr, and what has to be said even without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.app.cli.progress import announce

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Answer, Assistant
    from octavo.app.memory.service import ChatMemory, MemoryFailed, MemoryNews
    from octavo.storage.records import StoredMessage


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


def tell_news(news: MemoryNews | MemoryFailed) -> None:
    """What was remembered of a message, and every alarm."""
    from octavo.app.memory.service import MemoryFailed
    from octavo.app.memory.telling import told

    if isinstance(news, MemoryFailed):
        announce(news.error)
        return
    for outcome in news.outcomes:
        if outcome.check.verdict in ("tension", "contradiction", "update"):
            for line in (f"“{outcome.check.text}”", *told(outcome.check)):
                announce(line)
            announce("`octavo memory conflicts` shows what waits for you, `octavo memory undo` takes this back.")
        elif outcome.correction is not None:
            announce(f"Remembered: “{outcome.check.text}”")


def tell_recalled(memory: ChatMemory, message: StoredMessage) -> None:
    """The memories an answer was given with, and those left out."""
    used = memory.used(message)
    if used is None:
        return
    for item in used.memories:
        announce(f"Recalled: “{item.text}” (said on {item.said[:10]})")
    for reason, number in used.left_out:
        announce(f"Not recalled: {number} {'memory' if number == 1 else 'memories'} ({reason}).")
