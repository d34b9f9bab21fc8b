"""Conversations replayed: a fact, its correction, and what follows; does the correction arrive, and stay?

In the manner of MemCorrect. Every message goes the way a real one goes: stored, extracted, checked, written; and what
is believed is what `recall` gives to the next question.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.memory.extract import remember_message
from octavo.app.memory.keeper import Keeper
from octavo.app.memory.recall import recall, today
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database

if TYPE_CHECKING:
    from octavo.app.memory.check import Judge
    from octavo.storage.database import Database
    from octavo.storage.records import StoredMessage

_BUDGET = 300  # tokens, here words, for what is recalled


@dataclass(frozen=True, slots=True)
class Story:
    """A fact, its correction, a question that needs it, and statements that must change nothing."""

    fact: str
    correction: str
    question: str
    harmless: tuple[str, ...]


_OTHER_FACTS = (
    "My favourite composer is Bach.",
    "I have a sister.",
    "I speak Portuguese.",
    "I'm allergic to penicillin.",
    "I use Inkscape.",
    "I'm left-handed.",
)
_CITIES = ("Lisbon", "Oslo", "Prague", "Vienna", "Dublin", "Athens")
_FIRMS = ("Acme", "Globex", "Initech", "Hooli")
_THINGS = ("olives", "jazz", "camping", "chess", "karaoke", "sailing")
_DRUGS = ("lisinopril", "sertraline", "omeprazole")


def stories(seed: int) -> list[Story]:
    """Every story, in an order the seed decides."""
    found = list(_stories())
    random.Random(seed).shuffle(found)  # noqa: S311
    return found


def _stories() -> Iterator[Story]:
    for old, new in zip(_CITIES, _CITIES[1:] + _CITIES[:1], strict=True):
        yield Story(
            f"I live in {old}.",
            f"I moved to {new}.",
            "Where do I live now?",
            (f"My cousin lives in {old}.", f"I used to live in {old}.", f"If I lived in {old} I would be bored.",
             f"I might move to {old}.", f"Do I live in {old}?"),
        )  # fmt: skip
    for old, new in zip(_FIRMS, _FIRMS[1:] + _FIRMS[:1], strict=True):
        yield Story(
            f"I work at {old}.",
            f"I started a new job at {new}.",
            "Which company do I work for?",
            (f"My wife works at {old}.", f"I used to work at {old}.", f"Would I like to work at {old}?"),
        )
    for thing in _THINGS:
        yield Story(
            f"I love {thing}.",
            f"Actually, I hate {thing} now.",
            f"What do I think of {thing}?",
            (f"My brother loves {thing}.", f"I used to love {thing}.", f"Anna says that {thing} is great."),
        )
    for drug in _DRUGS:
        for dose in (5, 10, 20):
            yield Story(
                f"I take {dose} mg of {drug}.",
                f"My doctor lowered my {drug} dose to {dose / 2:g} mg.",
                f"How much {drug} do I take?",
                (f"My mother takes {dose} mg of {drug}.", f"In 2015 I took {dose} mg of {drug}.",
                 f"Should I take {dose} mg of {drug}?"),
            )  # fmt: skip
    for age in range(25, 65, 10):
        yield Story(
            f"I'm {age} years old.",
            f"I just turned {age + 1}.",
            "How old am I?",
            (f"My husband is {age} years old.", f"Is {age} old?"),
        )


def replay(seed: int, judge: Judge | None = None) -> dict[str, Any]:
    """Shares over all stories: `uptake` (the correction is what the next question gets), `non_resurrection` (the old
    fact stays away, after statements around it and after being forgotten), `false_apply` (harmless statements that
    changed a belief); and `collateral`, how many other memories changed."""
    taken = stayed = applied = harmless = collateral = 0
    found = stories(seed)
    for story in found:
        with (
            tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder,
            open_database(Path(folder) / "octavo.db") as database,
        ):
            result = _Run(database, judge).play(story)
        taken += result.taken
        stayed += result.stayed
        applied += result.applied
        harmless += len(story.harmless)
        collateral += result.collateral
    return {
        "stories": len(found),
        "uptake": round(taken / len(found), 4),
        "non_resurrection": round(stayed / len(found), 4),
        "collateral": collateral,
        "false_apply": round(applied / harmless, 4),
    }


@dataclass(frozen=True, slots=True)
class _Result:
    taken: bool
    stayed: bool
    applied: int
    collateral: int


class _Run:
    """One conversation with an empty memory."""

    def __init__(self, database: Database, judge: Judge | None) -> None:
        self.keeper = Keeper(database, judge=judge)
        self._conversations = Conversations(database)
        self._conversation = self._conversations.create().id

    def play(self, story: Story) -> _Result:
        for other in _OTHER_FACTS:
            self._say(other)
        others = self._valid()
        fact = self._say(story.fact)
        correction = self._say(story.correction)
        recalled = self._recalled(story.question)
        taken = _holds(story.correction, recalled) and not _holds(story.fact, recalled)
        applied = 0
        for text in story.harmless:
            before = self._valid()
            self._say(text)
            applied += not before <= self._valid()
        collateral = len(others - self._valid())
        recalled = self._recalled(story.question)
        stayed = _holds(story.correction, recalled) and not _holds(story.fact, recalled)
        return _Result(taken, stayed and self._stays_forgotten(story, fact, correction), applied, collateral)

    def _stays_forgotten(self, story: Story, *messages: StoredMessage) -> bool:
        """Forget both sides, read their messages as if for the first time, and hear the fact once more."""
        for memory in self.keeper.memories.list():
            if _holds(story.fact, [memory.text]) or _holds(story.correction, [memory.text]):
                self.keeper.forget(memory.id)
        with self.keeper.memories.database.atomic() as connection:
            connection.execute("DELETE FROM memory_read")
        for message in messages:
            remember_message(self.keeper, message)
        self._say(story.fact)
        texts = [memory.text for memory in self.keeper.memories.list()]
        return not _holds(story.fact, texts) and not _holds(story.correction, texts)

    def _say(self, text: str) -> StoredMessage:
        leaf = self._conversations.get(self._conversation).leaf_id
        message = self._conversations.add_message(self._conversation, leaf, "user", text)
        remember_message(self.keeper, message)
        return message

    def _valid(self) -> set[tuple[str, str]]:
        return {(memory.id, memory.text) for memory in self.keeper.memories.list(day=today().isoformat())}

    def _recalled(self, question: str) -> list[str]:
        found = recall(self.keeper.memories, question, _BUDGET, lambda text: len(text.split()))
        return [item.memory.text for item in found.used]


def _holds(statement: str, texts: list[str]) -> bool:
    """True if one of the texts is the statement, or the clause of it that was kept."""
    plain = statement.strip(".").casefold()
    return any(text.strip(".").casefold() in plain for text in texts)
