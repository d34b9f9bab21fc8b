"""The memory in the words and rows the screen shows. Called in threads: everything here reads the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from octavo.app.memory.fence import is_safety
from octavo.app.memory.recall import strength, today
from octavo.app.memory.slash import find
from octavo.app.memory.telling import holding
from octavo.app.tui.screens.memories import Row
from octavo.app.tui.widgets.alarm_bar import Alarm

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper, Outcome
    from octavo.app.memory.service import ChatMemory
    from octavo.storage.memory_records import Memory
    from octavo.storage.records import StoredMessage

_SOURCES = {"user": "told to be remembered", "extracted": "from a message", "import": "from an import"}


def memory_rows(keeper: Keeper, words: str = "") -> list[Row]:
    """What holds today, the newest first, or of it what the words find."""
    return [_row(keeper, memory) for memory in find(keeper, words)]


def state_notes(memory: ChatMemory) -> list[str]:
    """How the memory works here, in sentences."""
    mode = {
        "auto": "What you say about yourself is remembered after each answer",
        "manual": "Only what you /remember is kept",
        "off": "Memory is off: nothing is kept or recalled",
    }[memory.mode]
    return [
        f'{mode} (setting memory = "{memory.mode}").',
        f"Checked by {memory.checked_by}; found by {memory.found_by}.",
    ]


def used_rows(memory: ChatMemory, message: StoredMessage) -> tuple[list[Row], list[str]]:
    """The memories a message was answered with, and sentences about the rest."""
    used = memory.used(message)
    if used is None:
        return [], [
            "Nothing was recalled for it: it came from documents, memory was off, or it is older than the memory."
        ]
    notes = [f"They took {used.tokens:,} tokens of the prompt."] if used.memories else []
    if used.num_gone:
        notes.append(f"{used.num_gone} more were used and are forgotten or taken back since.")
    notes += [f"{number} left out: {reason}." for reason, number in used.left_out]
    return [_row(memory.keeper, item) for item in used.memories], notes


def open_alarms(keeper: Keeper, shown: Sequence[Alarm] = ()) -> list[Alarm]:
    """The corrections among those `shown` that still stand, then the conflicts that wait, the newest first."""
    alarms = [alarm for alarm in shown if alarm.kind == "correction" and keeper.log.get(int(alarm.key)).undone is None]
    for conflict in keeper.memories.conflicts(only_open=True):
        old, new = keeper.memories.get(conflict.old_id), keeper.memories.get(conflict.new_id)
        alarms.append(
            Alarm(
                "conflict", conflict.id, conflict.verdict, old.text, old.said[:10], new.text, conflict.reason,
                conflict.checked_by,
            )
        )  # fmt: skip
    return alarms


def correction_alarm(outcome: Outcome) -> Alarm | None:
    """The alarm of a contradiction that was settled by itself: the newest counts, and that must be seen."""
    met = outcome.check.with_verdict("contradiction")
    line = outcome.correction
    if outcome.check.verdict != "contradiction" or not met or line is None or line.kind != "contradiction":
        return None
    old = met[0].memory
    return Alarm(
        "correction", str(line.seq), "contradiction", old.text, old.said[:10], outcome.check.text,
        outcome.check.finding.reason, outcome.check.checked_by,
    )  # fmt: skip


def side(keeper: Keeper, alarm: Alarm, which: str) -> Memory:
    """The older or the newer memory of an alarm. Raises StorageError if it is gone."""
    if alarm.kind == "correction":
        line = keeper.log.get(int(alarm.key))
        return keeper.memories.get(str(line.old_id if which == "old" else line.new_id))
    conflict = next(item for item in keeper.memories.conflicts() if item.id == alarm.key)
    return keeper.memories.get(conflict.old_id if which == "old" else conflict.new_id)


def _row(keeper: Keeper, memory: Memory) -> Row:
    evidence = keeper.memories.evidence(memory.id)
    times = f"said {len(evidence)} times, first" if len(evidence) > 1 else "said"
    about = [
        f"{times} on {memory.said[:10]}, {_SOURCES[memory.source]}; {_validity(memory)}",
        f"{_subject(memory)}; {_fading(memory)}",
    ]
    waiting = [conflict for conflict in keeper.memories.conflicts(memory_id=memory.id) if conflict.state == "open"]
    about += [f"⚠ {conflict.reason}" for conflict in waiting]
    return Row(memory.id, memory.text, is_safety(memory), tuple(about))


def _validity(memory: Memory) -> str:
    return f"holds {holding(memory) or 'at any time'}"


def _fading(memory: Memory) -> str:
    if memory.pinned or is_safety(memory):
        return "does not fade"
    return f"weight {strength(memory, today()):.2f} beside fresh ones (never less than a quarter)"


def _subject(memory: Memory) -> str:
    kind, _, name = memory.subject.partition(":")
    about = name or {"user": "you"}.get(kind, "somebody unknown")
    slot = memory.slot.replace(":", " ").replace("_", " ") or "not understood, kept as it is"
    return f"about {about}: {slot}"
