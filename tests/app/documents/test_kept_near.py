"""Documents that are read whole in the conversation on the screen keep their pages near, for as long as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from octavo.app.assistant.assistant import Assistant, load_assistant
from octavo.app.documents.asking import Asker, Question
from octavo.app.documents.background import BackgroundReader
from octavo.app.documents.index import Indexer
from octavo.app.documents.parse import Reader
from octavo.app.documents.shelf import Shelf
from octavo.app.documents.whole import owner_of
from octavo.app.settings import Settings
from octavo.engine.config import GenerationPolicy
from octavo.storage.attachments import Attachments
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.documents import StoredDocument
from octavo.storage.paths import Paths

pytestmark = pytest.mark.model


class Room:
    """A shelf with two documents, of which conversation `first` has one open, `second` the other; `empty` has none."""

    def __init__(self, shelf: Shelf, conversations: Conversations, documents: list[StoredDocument]) -> None:
        self.shelf, self.documents = shelf, documents
        self.reader = BackgroundReader(shelf, lambda event: None, lambda: None)
        self.first, self.second, self.empty = (conversations.create().id for _ in range(3))
        for conversation_id, document in zip((self.first, self.second), documents, strict=True):
            shelf.attachments.attach(conversation_id, [document.path])

    def show(self, assistant: Assistant, conversation_id: str | None) -> frozenset[str]:
        """Who is kept near once this conversation was shown for a while."""
        self.reader.want(conversation_id)
        return self.work(assistant)

    def work(self, assistant: Assistant) -> frozenset[str]:
        left = iter([True] * 10_000)
        self.reader.work(assistant, lambda: next(left, False))
        return assistant.engine.cache.kept_near


@pytest.fixture
def room(tmp_path: Path, reader: Reader) -> Iterator[Room]:
    paths = Paths(*(tmp_path / name for name in ("config", "data", "cache", "state")))
    texts = ("The mill has nine doors.\n\n" * 30, "The pump has four valves.\n\n" * 30)
    files = [tmp_path / f"{number}.md" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    with open_database(tmp_path / "octavo.db") as database:
        shelf = Shelf(paths, Settings(embedder="off"), Attachments(database))
        documents = shelf.documents(make=True)
        assert documents is not None
        added = [result.document for result in Indexer(documents, reader).add(files)]
        yield Room(shelf, Conversations(database), [document for document in added if document is not None])
        shelf.close()


@pytest.fixture
def assistant(small_model: Path, tmp_path: Path) -> Iterator[Assistant]:
    paths = Paths(*(tmp_path / name for name in ("config", "data", "cache", "state")))
    settings = Settings(vram="128MiB", disk="128MiB")
    with closing(load_assistant(small_model, settings, paths, fingerprint="small")) as assistant:
        yield assistant


def test_of_the_conversation_on_the_screen_and_no_other(room: Room, assistant: Assistant) -> None:
    mill, pump = map(owner_of, room.documents)
    assert room.show(assistant, room.first) == {mill, room.first}
    assert room.show(assistant, room.second) == {pump, room.second}
    assert room.show(assistant, room.empty) == frozenset()
    assert room.show(assistant, room.first) == {mill, room.first}
    assert room.show(assistant, None) == frozenset()  # it was closed


def test_until_the_document_is_closed_searched_or_removed(room: Room, assistant: Assistant) -> None:
    mill, _ = room.documents
    attachments = room.shelf.attachments
    assert room.show(assistant, room.first)
    attachments.set_mode(room.first, "search")
    assert room.show(assistant, room.first) == frozenset()
    attachments.set_mode(room.first, "auto")
    assert room.show(assistant, room.first)
    attachments.detach(room.first, mill.path)
    assert room.show(assistant, room.first) == frozenset()
    attachments.attach(room.first, [mill.path])
    assert room.show(assistant, room.first)
    documents = room.shelf.documents()
    assert documents is not None
    documents.remove(mill.seq)
    assert room.show(assistant, room.first) == frozenset()


def test_also_while_reading_is_stopped_and_while_questions_are_answered(room: Room, assistant: Assistant) -> None:
    near = room.show(assistant, room.first)
    room.reader.stop()
    assert room.work(assistant) == near
    room.reader.pause(assistant)
    documents: Any = room.shelf.documents()
    policy = GenerationPolicy(temperature=0.0, max_tokens=4)
    Asker(assistant, documents, policy).ask(Question("How many doors has the mill?", room.documents[:1], "read"))
    pinned = assistant.engine.cache.tiers._residency.pinned
    owned = assistant.engine.cache.table.owned_by(owner_of(room.documents[0]))
    assert owned
    assert pinned[list(owned)].all()
    assert room.work(assistant) == near
