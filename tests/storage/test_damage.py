"""A file that is not what Octavo wrote is refused and left as it is, or does no harm."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.errors import StorageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "octavo.db"


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
