"""What commits together, and what threads see of each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.storage.conversations import Conversations
from octavo.storage.database import Database, open_database
from octavo.storage.errors import StorageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octavo.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with open_database(path) as opened:
        yield opened


def create_and_fail(database: Database, failure: BaseException) -> None:
    with database.atomic():
        Conversations(database).create("Inner")
        assert "Inner" in [found.title for found in Conversations(database).list()]
        raise failure


def test_inner_failure_takes_back_the_inner_block_only(database: Database) -> None:
    conversations = Conversations(database)
    with database.atomic():
        conversations.create("Outer")
        with pytest.raises(RuntimeError):
            create_and_fail(database, RuntimeError())

    assert [found.title for found in conversations.list()] == ["Outer"]


def test_outer_failure_takes_back_everything(database: Database) -> None:
    conversations = Conversations(database)
    with pytest.raises(KeyboardInterrupt):
        create_and_fail(database, KeyboardInterrupt())

    assert conversations.list() == []


def test_threads_see_commits_only_and_do_not_wait_for_each_other(database: Database) -> None:
    conversations = Conversations(database)
    seen: list[int] = []
    with database.atomic():
        conversations.create("In progress")
        reader = threading.Thread(target=lambda: seen.append(len(conversations.list())))
        reader.start()
        reader.join(timeout=10)
        assert not reader.is_alive()

    assert seen == [0]
    assert len(conversations.list()) == 1


def test_many_threads(path: Path, database: Database) -> None:
    conversations = Conversations(database)
    chat = conversations.create("Shared")
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(15):
                conversations.add_message(chat.id, None, "user", f"thread {name} message {number}")
                assert conversations.search(f'"thread {name} message {number}"')
                assert len(conversations.tree(chat.id)) > number
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=[name]) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()

    assert failures == []
    with open_database(path, write=False) as whole:  # checks it
        assert Conversations(whole).get(chat.id).num_messages == 60


def test_closed(database: Database) -> None:
    conversations = Conversations(database)
    database.close()

    for use in (conversations.create, conversations.list, database.checkpoint):
        with pytest.raises(StorageError, match="is closed"):
            use()
