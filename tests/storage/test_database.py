"""The database as a file: who may write it, what a kill leaves, and where it has no room."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.storage.conversations import Conversations
from octavo.storage.database import Database, DatabaseBusyError, DatabaseMissingError, open_database
from octavo.storage.errors import StorageError
from octavo.storage.paths import Paths

PREAMBLE = """
import os, sys, time
from pathlib import Path
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
path = Path(sys.argv[1])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "octavo.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with open_database(path) as opened:
        yield opened


def other_process(path: Path, script: str) -> subprocess.Popen[str]:
    """Another Python at work on the same database."""
    command = [sys.executable, "-c", PREAMBLE + script, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def answer_of_other_process(path: Path, script: str) -> str:
    output, _ = other_process(path, script).communicate(timeout=60)
    return output.strip()


def is_whole(path: Path) -> bool:
    """SQLite's own complete check, by a connection that knows nothing of Octavo."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)] and not (
            connection.execute("PRAGMA foreign_key_check").fetchall()
        )
    finally:
        connection.close()


def test_file_is_where_paths_say_and_private(octavo_home: Path) -> None:
    path = Paths.from_environment().database_file

    with open_database(path) as database:
        Conversations(database).create("Mine")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    assert path == octavo_home / "data" / "octavo.db"
    assert set(modes) == {"octavo.db", "octavo.db-wal", "octavo.db-shm", "octavo.db.lock"}
    assert set(modes.values()) == {0o600}
    assert {file.name for file in path.parent.iterdir()} == {"octavo.db", "octavo.db.lock"}


def test_connections_have_what_the_design_asks_for(database: Database) -> None:
    with database.atomic() as writer:
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    for borrow in (database.atomic, database.reading):
        with borrow() as connection:
            values = [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("foreign_keys", "secure_delete", "synchronous")
            ]
        assert values == [1, 1, 2]


class TestOneWriter:
    def test_second_process_is_told_and_may_read(self, path: Path, database: Database) -> None:
        Conversations(database).create("From the first")

        told = answer_of_other_process(
            path,
            "try: open_database(path)\n"
            "except Exception as error: print(type(error).__name__, error)\n"
            "with open_database(path, write=False) as other:\n"
            "    print([found.title for found in Conversations(other).list(query='first')])\n",
        )

        assert told.splitlines() == [
            f"DatabaseBusyError Octavo is already open in another process (pid {os.getpid()}); "
            "use that one, or close it first.",
            "['From the first']",
        ]

    def test_second_in_this_process_is_told_too(self, path: Path, database: Database) -> None:
        with pytest.raises(DatabaseBusyError, match=str(os.getpid())):
            open_database(path)

    def test_right_to_write_returns_with_close(self, path: Path, database: Database) -> None:
        database.close()
        database.close()

        with open_database(path) as again:
            assert again.writable

    def test_reader_in_another_process_works_while_a_transaction_is_open(self, path: Path, database: Database) -> None:
        conversations = Conversations(database)
        kept = conversations.create("Committed")
        with database.atomic():
            conversations.add_message(kept.id, None, "user", "not committed yet")
            seen = answer_of_other_process(
                path,
                "with open_database(path, write=False) as other:\n"
                "    print(Conversations(other).get(Conversations(other).list()[0].id).num_messages)\n",
            )

        assert seen == "0"
        assert conversations.get(kept.id).num_messages == 1

    def test_two_processes_at_once_corrupt_nothing(self, path: Path, database: Database) -> None:
        conversations = Conversations(database)
        chat = conversations.create("Busy")
        reader = other_process(
            path,
            "with open_database(path, write=False) as other:\n"
            "    conversations = Conversations(other)\n"
            "    chat = conversations.list()[0]\n"
            "    print('ready', flush=True)\n"
            "    seen = [0]\n"
            "    while seen[-1] < 150:\n"
            "        found = conversations.path(chat.id)\n"
            "        assert [m.text for m in found] == [f'number {i}' for i in range(len(found))]\n"
            "        assert len(found) >= seen[-1]\n"
            "        seen.append(len(found))\n"
            "    print(len(conversations.search('number', limit=1000)))\n",
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        parent = None
        for number in range(150):
            parent = conversations.add_message(chat.id, parent, "user", f"number {number}").id

        output, _ = reader.communicate(timeout=60)
        database.close()

        assert output.strip() == "150"
        assert reader.returncode == 0
        assert is_whole(path)

    def test_reader_cannot_write(self, path: Path, database: Database) -> None:
        database.close()

        with open_database(path, write=False) as reader:
            with pytest.raises(StorageError, match="for reading only"):
                Conversations(reader).create()
            with pytest.raises(StorageError, match="cannot be used"), reader.reading() as connection:
                connection.execute("DELETE FROM conversations")
        assert not path.with_name("octavo.db-wal").exists()

    def test_nothing_to_read(self, path: Path) -> None:
        with pytest.raises(DatabaseMissingError, match="no database"):
            open_database(path, write=False)
        assert not path.parent.exists()


class TestKilled:
    def test_mid_answer(self, path: Path) -> None:
        randomness = random.Random(9)
        for round_number in range(3):
            child = other_process(
                path,
                "database = open_database(path)\n"
                "conversations = Conversations(database)\n"
                "chat = conversations.create('Killed')\n"
                "question = conversations.add_message(chat.id, None, 'user', 'kept question')\n"
                "answer = conversations.add_message(chat.id, question.id, 'assistant', '', status='streaming')\n"
                "text, count = '', 0\n"
                "while True:\n"
                "    text, count = text + f'word{count} ' * 50, count + 1\n"
                "    conversations.update_message(answer.id, text=text, token_ids=range(count), status='streaming')\n"
                "    print(chat.id, count, flush=True)\n",
            )
            with child:
                assert child.stdout is not None
                lines = [child.stdout.readline() for _ in range(randomness.randrange(1, 40))]
                child.kill()
                lines += child.stdout.readlines()
            chat_id, acknowledged = next(line for line in reversed(lines) if line.endswith("\n")).split()

            with open_database(path) as database:
                conversations = Conversations(database)
                assert conversations.mark_interrupted() == 1
                question, answer = conversations.path(chat_id)
                assert len(conversations.search("word0")) == round_number + 1
            assert (question.text, question.status) == ("kept question", "complete")
            assert answer.status == "interrupted"
            assert len(answer.token_ids) >= int(acknowledged)
            assert answer.text == "".join(f"word{i} " * 50 for i in range(len(answer.token_ids)))
            assert is_whole(path)

    def test_while_the_database_is_made(self, path: Path) -> None:
        child = other_process(
            path,
            "from octavo.storage import migrations\n"
            "def dies(connection):\n"
            "    connection.execute('CREATE TABLE conversations (id TEXT)')\n"
            "    os.kill(os.getpid(), 9)\n"
            "migrations.STEPS = (('0001_conversations', dies),)\n"
            "open_database(path)\n",
        )
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        assert not path.exists()

        with open_database(path) as database:
            Conversations(database).create("It works")
        assert {file.name for file in path.parent.iterdir()} == {"octavo.db", "octavo.db.lock"}


class TestNoRoom:
    def test_folder_that_cannot_be_written(self) -> None:
        folder = Path(tempfile.mkdtemp())
        path = folder / "octavo.db"
        try:
            with open_database(path) as database:
                Conversations(database).create("On a read-only medium")
            path.chmod(0o444)
            folder.chmod(0o555)
            told = answer_of_other_process(
                path,
                "import sqlite_utils\n"
                "if os.geteuid() == 0: os.setuid(65534)\n"
                "try: open_database(path)\n"
                "except Exception as error: print(type(error).__name__, error)\n"
                "with open_database(path, write=False) as other: print(Conversations(other).list()[0].title)\n",
            )
        finally:
            folder.chmod(0o755)
            shutil.rmtree(folder)

        refusal, title = told.splitlines()
        assert refusal.startswith(f"StorageError The folder {folder} cannot be written")
        assert title == "On a read-only medium"

    def test_full_disk(self, database: Database) -> None:
        conversations = Conversations(database)
        chat = conversations.create("Small disk")
        with database.atomic() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 10}")

        with pytest.raises(StorageError, match="the disk is full; free some space"):
            conversations.add_message(chat.id, None, "user", "long " * 100_000)

        assert conversations.get(chat.id).num_messages == 0
        conversations.add_message(chat.id, None, "user", "short")
