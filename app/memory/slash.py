"""What `/remember`, `/forget` and `/memories` do: each takes the words after it and gives lines to show."""

from __future__ import annotations

from octavo.app.errors import AppError
from octavo.app.memory.keeper import Keeper
from octavo.app.memory.recall import today
from octavo.app.memory.telling import told
from octavo.storage.memory_records import Memory

_MOST = 20


def remember(keeper: Keeper, text: str, *, message_id: str = "") -> list[str]:
    """Remember what the words state. Raises AppError if they state nothing."""
    return [line for outcome in keeper.add(text, message_id=message_id) for line in told(outcome.check)]


def memories(keeper: Keeper, words: str = "") -> list[str]:
    """What is remembered and holds today, or of it what the words find."""
    found = find(keeper, words)
    lines = [_line(memory) for memory in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"and {len(found) - _MOST} more; give words to look for.")
    return lines or ["Nothing is remembered" + (" that these words find." if words else " yet.")]


def forget(keeper: Keeper, words: str) -> list[str]:
    """Forget the one memory with this id, or that the words find. Raises AppError if that is none, or several."""
    memory = find_one(keeper, words)
    keeper.forget(memory.id)
    return [f"Forgot “{memory.text}”."]


def find_one(keeper: Keeper, words: str) -> Memory:
    """The one memory with this id, or that the words find. Raises AppError if that is none, or several."""
    if not words.strip():
        raise AppError("Say which memory to forget: words of it, or its id from /memories.")
    by_id = [memory for memory in keeper.memories.list() if memory.id.startswith(words.strip().lower())]
    found = by_id or find(keeper, words)
    if not found:
        raise AppError("Nothing is remembered that these words find.")
    exact = [memory for memory in found if memory.text.casefold().strip(" .") == words.casefold().strip(" .")]
    if len(exact or found) > 1:
        raise AppError("Several memories fit: " + "; ".join(_line(memory) for memory in found[:_MOST]))
    return (exact or found)[0]


def find(keeper: Keeper, words: str) -> list[Memory]:
    """What holds today, the newest first, or of it what the words find, the best first."""
    day = today().isoformat()
    if not words.strip():
        return keeper.memories.list(day=day)
    return [memory for memory, _ in keeper.memories.search(words, day, 50)]


def _line(memory: Memory) -> str:
    return f"{memory.id[:12]}  {memory.text}"
