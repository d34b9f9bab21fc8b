"""The database as a file: who may write it, what a kill leaves, what is refused, and what deleting leaves behind."""

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
import threading
from collections.abc import Callable, Iterator
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


class TestRefused:
    @pytest.fixture
    def filled(self, path: Path) -> bytes:
        with open_database(path) as database:
            conversations = Conversations(database)
            for number in range(20):
                chat = conversations.create(f"Chat {number}")
                conversations.add_message(chat.id, None, "user", f"question {number} " * 50)
        return path.read_bytes()

    @pytest.mark.parametrize("write", [True, False])
    @pytest.mark.parametrize(
        ("damage", "says"),
        [
            pytest.param(lambda data: b"", "damaged", id="zero bytes"),
            pytest.param(lambda data: b"this is a letter, not a database" * 200, "damaged", id="another kind of file"),
            pytest.param(lambda data: data[: len(data) // 2], "damaged", id="half of it"),
            pytest.param(lambda data: data[: len(data) - 1000], "damaged", id="an end that is missing"),
            pytest.param(lambda data: data[:4096] + bytes(4096) + data[8192:], "damaged", id="a page of zeros"),
            pytest.param(lambda data: data[:100] + bytes(byte ^ 255 for byte in data[100:]), "damaged", id="flipped"),
        ],
    )
    def test_damage(self, path: Path, filled: bytes, damage: Callable[[bytes], bytes], says: str, write: bool) -> None:
        path.write_bytes(damage(filled))

        with pytest.raises(StorageError, match=says) as refusal:
            open_database(path, write=write)

        assert str(path) in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert path.read_bytes() == damage(filled)

    def test_damaged_log_keeps_what_was_committed_before_it(self, path: Path, filled: bytes) -> None:
        path.with_name("octavo.db-wal").write_bytes(b"\x37\x7f\x06\x82" + random.Random(1).randbytes(9000))

        with open_database(path) as database:
            assert len(Conversations(database).list()) == 20

    def test_log_without_its_database(self, path: Path, filled: bytes) -> None:
        path.unlink()
        path.with_name("octavo.db-wal").write_bytes(b"left over")

        with pytest.raises(StorageError, match=r"octavo\.db-wal belongs to a database that is not there"):
            open_database(path)

    def test_every_flipped_bit_is_refused_or_survived(self, path: Path, filled: bytes) -> None:
        randomness = random.Random(20)
        for _ in range(40):
            damaged = bytearray(filled)
            for _ in range(randomness.choice([1, 5])):
                damaged[randomness.randrange(len(damaged))] ^= 1 << randomness.randrange(8)
            path.write_bytes(damaged)
            try:
                database = open_database(path)
            except StorageError:
                assert path.read_bytes() == bytes(damaged)
                continue
            with database:
                conversations = Conversations(database)
                chat = conversations.create("Still of use")
                added = conversations.add_message(chat.id, None, "user", "question that is kept")
                assert added.id in [hit.message_id for hit in conversations.search("question kept")]
                assert [message.text for message in conversations.path(chat.id)] == ["question that is kept"]
                for known in conversations.list():
                    conversations.tree(known.id)
                conversations.delete(chat.id)

    def test_other_programs_database(self, path: Path) -> None:
        path.parent.mkdir()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE notes (text)")
        connection.close()
        before = path.read_bytes()

        for write in (True, False):
            with pytest.raises(StorageError, match="of another program"):
                open_database(path, write=write)
        assert path.read_bytes() == before

    def test_folder_in_its_place(self, path: Path) -> None:
        path.mkdir(parents=True)

        for write in (True, False):
            with pytest.raises(StorageError, match="is a folder"):
                open_database(path, write=write)

    def test_refusal_gives_the_right_to_write_back(self, path: Path, filled: bytes) -> None:
        path.write_bytes(b"damaged")
        with pytest.raises(StorageError, match="damaged"):
            open_database(path)
        path.write_bytes(filled)

        open_database(path).close()

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


def create_and_fail(database: Database, failure: BaseException) -> None:
    with database.atomic():
        Conversations(database).create("Inner")
        assert "Inner" in [found.title for found in Conversations(database).list()]
        raise failure


class TestTransactions:
    def test_inner_failure_takes_back_the_inner_block_only(self, database: Database) -> None:
        conversations = Conversations(database)
        with database.atomic():
            conversations.create("Outer")
            with pytest.raises(RuntimeError):
                create_and_fail(database, RuntimeError())

        assert [found.title for found in conversations.list()] == ["Outer"]

    def test_outer_failure_takes_back_everything(self, database: Database) -> None:
        conversations = Conversations(database)
        with pytest.raises(KeyboardInterrupt):
            create_and_fail(database, KeyboardInterrupt())

        assert conversations.list() == []

    def test_threads_see_commits_only_and_do_not_wait_for_each_other(self, database: Database) -> None:
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

    def test_many_threads(self, path: Path, database: Database) -> None:
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
        assert is_whole(path)

    def test_closed(self, database: Database) -> None:
        conversations = Conversations(database)
        database.close()

        for use in (conversations.create, conversations.list, database.checkpoint):
            with pytest.raises(StorageError, match="is closed"):
                use()


class TestDeletedTextIsGone:
    NEEDLES = ("quokkaplumage", "xylophonist", "zugzwangvoll", "brummkreisel", "ochsenziemer", "京都駅前広場")

    def everything_on_disk(self, path: Path) -> bytes:
        return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))

    def test_no_byte_is_left(self, path: Path, database: Database) -> None:
        conversations = Conversations(database)
        other = conversations.create("Stays here")
        conversations.add_message(other.id, None, "user", "a text that stays")
        chat = conversations.create(f"About {self.NEEDLES[0]}")
        parent = None
        for _ in range(30):
            parent = conversations.add_message(chat.id, parent, "user", f"{self.NEEDLES[1]} and more " * 40).id
        answer = conversations.add_message(
            chat.id, parent, "assistant", self.NEEDLES[2] * 500, status="streaming", record={"error": self.NEEDLES[3]}
        )
        conversations.update_message(answer.id, text=self.NEEDLES[4], token_ids=[], status="streaming")
        conversations.update_message(answer.id, text=self.NEEDLES[5], token_ids=[], status="complete")
        conversations.rename(chat.id, "Renamed before it went")
        # The ends of the words: inside the index only the part that differs from the word before it is written out.
        endings = [needle[-4:].encode() for needle in self.NEEDLES]
        before = self.everything_on_disk(path)
        assert all(ending in before for ending in endings)

        conversations.delete(chat.id)

        while_open = self.everything_on_disk(path)
        assert [ending for ending in endings if ending in while_open] == []
        assert b"Renamed before" not in while_open
        assert b"a text that stays" in while_open
        database.close()
        after = self.everything_on_disk(path)
        assert [ending for ending in endings if ending in after] == []
        assert is_whole(path)

    def test_reader_elsewhere_delays_it_until_close(self, path: Path, database: Database) -> None:
        conversations = Conversations(database)
        chat = conversations.create(self.NEEDLES[0])
        reader = sqlite3.connect(path)
        reader.execute("PRAGMA busy_timeout = 0")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM conversations").fetchall()
        with database.atomic() as connection:
            connection.execute("PRAGMA busy_timeout = 10")

        conversations.delete(chat.id)

        assert not database.checkpoint()
        reader.close()
        database.close()
        assert self.NEEDLES[0].encode() not in self.everything_on_disk(path)
