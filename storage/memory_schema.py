"""The tables of the long-term memory.

A memory's words never change. What is believed about when it holds is a row of `beliefs`; a new belief closes the
one before it and adds a row, so both what was true and what was thought to be true can be asked for any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

_TABLES = (
    """CREATE TABLE memories (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL,
        language TEXT NOT NULL,
        subject TEXT NOT NULL,
        slot TEXT NOT NULL,
        value TEXT NOT NULL,
        claim TEXT NOT NULL,
        source TEXT NOT NULL,
        said TEXT NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX memories_by_slot ON memories(subject, slot, value)",
    """CREATE TABLE beliefs (
        seq INTEGER PRIMARY KEY,
        memory_id TEXT NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
        valid_from TEXT,
        valid_to TEXT,
        recorded_from TEXT NOT NULL,
        recorded_to TEXT
    )""",
    "CREATE INDEX beliefs_by_memory ON beliefs(memory_id)",
    "CREATE UNIQUE INDEX beliefs_now ON beliefs(memory_id) WHERE recorded_to IS NULL",
    """CREATE TABLE memory_evidence (
        seq INTEGER PRIMARY KEY,
        memory_id TEXT NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
        message_id TEXT NOT NULL,
        quote TEXT NOT NULL,
        said TEXT NOT NULL,
        UNIQUE (memory_id, message_id, quote)
    )""",
    """CREATE TABLE memory_conflicts (
        id TEXT PRIMARY KEY,
        old_id TEXT NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
        new_id TEXT NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
        verdict TEXT NOT NULL,
        reason TEXT NOT NULL,
        checked_by TEXT NOT NULL,
        created TEXT NOT NULL,
        state TEXT NOT NULL,
        UNIQUE (old_id, new_id)
    )""",
    "CREATE INDEX memory_conflicts_by_new ON memory_conflicts(new_id)",
    """CREATE TABLE memory_corrections (
        seq INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        kind TEXT NOT NULL,
        old_id TEXT,
        new_id TEXT,
        reason TEXT NOT NULL,
        checked_by TEXT NOT NULL,
        evidence TEXT NOT NULL,
        undone TEXT,
        changes TEXT NOT NULL
    )""",
    # What was forgotten: keyed hashes of what it said, so that it is known when it comes back, and cannot be read.
    "CREATE TABLE memory_tombstones (hash BLOB PRIMARY KEY, created TEXT NOT NULL)",
    "CREATE TABLE memory_secret (key BLOB NOT NULL)",
    "INSERT INTO memory_secret VALUES (randomblob(32))",
    """CREATE TABLE memory_pair_verdicts (
        premise BLOB NOT NULL,
        hypothesis BLOB NOT NULL,
        model TEXT NOT NULL,
        template TEXT NOT NULL,
        contradiction REAL NOT NULL,
        entailment REAL NOT NULL,
        PRIMARY KEY (premise, hypothesis, model, template)
    ) WITHOUT ROWID""",
    """CREATE TABLE memory_vectors (
        memory_id TEXT NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
        model TEXT NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (memory_id, model)
    )""",
    # Messages that were looked through for memories already.
    "CREATE TABLE memory_read (message_id TEXT PRIMARY KEY, at TEXT NOT NULL)",
    """CREATE TABLE summary_blocks (
        seq INTEGER PRIMARY KEY,
        conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        first_id TEXT NOT NULL,
        last_id TEXT NOT NULL,
        lines TEXT NOT NULL,
        created TEXT NOT NULL,
        UNIQUE (conversation_id, first_id, last_id)
    )""",
    # The words of a memory, and the concepts in it, so that "coffee" is found by "caffeine".
    'CREATE VIRTUAL TABLE memories_fts USING fts5(text, concepts, tokenize = "unicode61 remove_diacritics 2")',
)


def create(connection: Connection) -> None:
    """Make the tables, empty."""
    for statement in _TABLES:
        connection.execute(statement)
