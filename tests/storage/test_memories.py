"""Memories in the database: beliefs over two times, the log and its undoing, and what forgetting leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.storage.database import Database
from octavo.storage.errors import StorageError
from octavo.storage.memories import Memories, moment
from octavo.storage.memory_log import CorrectionLog
from octavo.storage.memory_records import Evidence, Memory

CLAIM = {"subject": "user", "slot": "home", "value": "berlin"}


@pytest.fixture
def memories(database: Database) -> Memories:
    with database.atomic() as connection:
        connection.execute("DELETE FROM memories")
        connection.execute("DELETE FROM memories_fts")
        connection.execute("DELETE FROM memory_corrections")
    return Memories(database)


def add(memories: Memories, text: str = "I live in Berlin", **claim: str) -> Memory:
    return memories.add(
        text,
        language="en",
        claim=CLAIM | claim,
        concepts=["berlin", "germany"],
        source="user",
        said="2026-05-01T10:00:00+00:00",
        valid_from=None,
        valid_to=None,
    )


def test_an_older_belief_stays_known(memories: Memories) -> None:
    memory = add(memories)
    before = moment()
    memories.believe(memory.id, None, "2026-06-01")

    assert memories.list(day="2026-07-01") == []
    assert [found.id for found in memories.list(day="2026-05-15")] == [memory.id]
    assert [found.id for found in memories.as_of(before, "2026-07-01")] == [memory.id]
    assert memories.as_of(moment(), "2026-07-01") == []


def test_search_finds_by_words_and_concepts_in_any_script(memories: Memories) -> None:
    memory = add(memories)
    chinese = add(memories, "我住在柏林", value="berlin")

    assert {found.id for found, _ in memories.search("germany", None, 8)} == {memory.id, chinese.id}
    assert [found.id for found, _ in memories.search("柏林", None, 8)] == [chinese.id]
    assert memories.search('"', None, 8) == []


def test_slots_are_found_with_what_is_below_them(memories: Memories) -> None:
    dose = add(memories, "I take 5 mg of x", slot="dose:x")
    add(memories)

    assert [found.id for found in memories.in_slots("user", ["dose"], "2026-06-01")] == [dose.id]
    assert memories.in_slots("person:anna", ["dose"], "2026-06-01") == []


def test_undo_restores_what_was_there(memories: Memories, database: Database) -> None:
    log = CorrectionLog(database)
    old, new = add(memories), add(memories, "I live in Rome", value="rome")
    changes = [{"memory": new.id, "before": None}, memories.believe(old.id, None, "2026-06-01")]
    conflict = memories.add_conflict(old.id, new.id, "update", "moved", "rules")
    changes += [{"conflict": conflict.id, "before": "withdrawn"}, memories.pin(old.id, True)]
    line = log.write(
        "update", old_id=old.id, new_id=new.id, reason="moved", checked_by="rules", evidence="…", changes=changes
    )

    assert log.undo().seq == line.seq
    assert [(found.text, found.valid_to, found.pinned) for found in memories.list()] == [
        ("I live in Berlin", None, False)
    ]
    assert [found.state for found in memories.conflicts()] == ["withdrawn"]
    with pytest.raises(StorageError, match="undone already"):
        log.undo(line.seq)
    with pytest.raises(StorageError, match="nothing to undo"):
        log.undo()
    assert [found.kind for found in log.list()] == ["undo", "update"]


def test_what_was_built_on_must_be_undone_first(memories: Memories, database: Database) -> None:
    log = CorrectionLog(database)
    memory = add(memories)

    def write(kind: str) -> int:
        return log.write(
            kind,
            old_id=None,
            new_id=memory.id,
            reason=kind,
            checked_by="",
            evidence="",
            changes=[],  # type: ignore[arg-type]
        ).seq

    first, second = write("add"), write("resolve")
    with pytest.raises(StorageError, match=f"Line {second} .*first"):
        log.undo(first)
    log.undo(second)
    log.undo(first)


def test_forgetting_leaves_a_hash_and_no_word(memories: Memories, database: Database) -> None:
    secret = "Zanzibarbarossa"
    memory = add(memories, f"I live in {secret}", value=secret.lower())
    memories.add_evidence(Evidence(memory.id, "m1", f"I live in {secret}", "2026-05-01"))
    log = CorrectionLog(database)
    log.write(
        "add", old_id=None, new_id=memory.id, reason=secret, checked_by="", evidence=secret, changes=[{"x": secret}]
    )

    log.scrub(memory.id, "forgotten")
    memories.forget(memory.id, [f"key of {secret}"])

    assert memories.is_forgotten([f"key of {secret}"])
    assert not memories.is_forgotten(["another"])
    with pytest.raises(StorageError, match="no memory"):
        memories.get(memory.id)
    database.checkpoint()
    found = [
        path
        for path in Path(database.path.parent).glob("octavo.db*")
        if secret.lower().encode() in path.read_bytes().lower()
    ]
    assert found == []


def test_ids_are_found_by_their_beginning(memories: Memories) -> None:
    memory = add(memories)

    assert memories.resolve(memory.id[:20]).id == memory.id
    with pytest.raises(StorageError, match="at least 4"):
        memories.resolve("01")
    with pytest.raises(StorageError, match="no memory"):
        memories.resolve("zzzz")
