"""What was deleted leaves no bytes behind, in the file and in its log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.storage.conversations import Conversations
from octavo.storage.database import Database, open_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "octavo.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with open_database(path) as opened:
        yield opened


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
        with open_database(path, write=False) as whole:  # checks it
            assert len(Conversations(whole).list()) == 1

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
