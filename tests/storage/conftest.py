"""Conversations in a database that the tests of one file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from octavo.storage.conversations import Conversation, Conversations
from octavo.storage.database import Database, open_database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_database(tmp_path_factory.mktemp("storage") / "octavo.db") as opened:
        yield opened


@pytest.fixture
def conversations(database: Database) -> Iterator[Conversations]:
    """Empty ones; the file is shared by this module."""
    conversations = Conversations(database)
    yield conversations
    with database.atomic():
        for found in conversations.list(limit=-1):
            conversations.delete(found.id)


@pytest.fixture
def chat(conversations: Conversations) -> Conversation:
    return conversations.create("A chat")
