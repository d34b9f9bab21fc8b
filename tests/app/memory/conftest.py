"""A memory in an empty database, and conversations in the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from octavo.app.memory.keeper import Keeper
from octavo.storage.conversations import Conversations
from octavo.storage.database import Database, open_database
from octavo.storage.records import Role, StoredMessage

DAY = datetime(2026, 5, 13, 12, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path / "octavo.db") as opened:
        yield opened


@pytest.fixture
def keeper(database: Database) -> Keeper:
    return Keeper(database)


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)


@pytest.fixture
def say(conversations: Conversations) -> Callable[..., StoredMessage]:
    """say("...") adds a message to the one conversation of this test; role="assistant" makes it an answer."""
    conversation = conversations.create()

    def add(text: str, role: Role = "user") -> StoredMessage:
        leaf = conversations.get(conversation.id).leaf_id
        return conversations.add_message(conversation.id, leaf, role, text)

    return add


@pytest.fixture
def remembered(keeper: Keeper) -> Callable[[], set[str]]:
    """The texts of what is believed to hold today."""
    return lambda: {memory.text for memory in keeper.memories.list(day=datetime.now(UTC).date().isoformat())}
