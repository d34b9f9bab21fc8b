"""The thread that adds documents: what it tells, what a quit leaves, and that it stops when it is told to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo.app.documents.index_events import DocumentsRemoved, IndexDone, IndexFailed, IndexProgress
from octavo.app.documents.index_thread import IndexThread
from octavo.app.documents.shelf import Shelf
from octavo.app.settings import Settings
from octavo.storage.attachments import Attachments
from octavo.storage.conversations import Conversations
from octavo.storage.database import Database, open_database
from octavo.storage.documents import Documents
from octavo.storage.library import open_library
from octavo.storage.paths import Paths


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path / "octavo.db") as database:
        yield database


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(*(tmp_path / name for name in ("config", "data", "cache", "state")))


class Running:
    """A thread and what it told."""

    def __init__(self, paths: Paths, database: Database, **settings: Any) -> None:
        self.events: list[Any] = []
        self.shelf = Shelf(paths, Settings(**{"embedder": "off", **settings}), Attachments(database))
        self.thread = IndexThread(self.shelf, self.events.append)

    def wait(self, kind: type[Any]) -> Any:
        """The first event of a kind."""
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            found = next((event for event in self.events if isinstance(event, kind)), None)
            if found is not None:
                return found
            time.sleep(0.01)
        raise AssertionError(f"no {kind.__name__} came, only {self.events}")


@pytest.fixture
def start(paths: Paths, database: Database) -> Iterator[Callable[..., Running]]:
    """start(**settings) -> a running thread; all are ended with the test."""
    running: list[Running] = []

    def call(**settings: Any) -> Running:
        running.append(Running(paths, database, **settings))
        return running[-1]

    yield call
    for each in running:
        each.thread.close()


def files(folder: Path, number: int) -> Path:
    folder.mkdir()
    for place in range(number):
        (folder / f"{place:04}.txt").write_text(f"The number of this file is {place}.")
    return folder


def test_a_folder_is_added_and_said_to_be(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start()
    folder = files(tmp_path / "many", 12)
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    (folder / "empty.txt").write_text("\n")
    running.thread.add([folder], "c1")
    done = running.wait(IndexDone)
    assert (done.conversation_id, done.added, done.num_skipped) == ("c1", {"added": 12, "refused": 1}, 1)
    assert [(Path(result.path).name, result.outcome) for result in done.refused] == [("empty.txt", "empty")]
    stages = [event.stage for event in running.events if isinstance(event, IndexProgress)]
    assert stages[0] == "finding"
    assert "reading" in stages


def test_cancelling_forgets_what_waits_and_closing_keeps_it(
    start: Callable[..., Running], tmp_path: Path, paths: Paths
) -> None:
    folder = files(tmp_path / "many", 400)
    running = start()
    running.thread.add([folder])
    running.wait(IndexProgress)
    assert running.thread.cancel()
    assert running.wait(IndexDone).cancelled
    documents = running.shelf.documents()
    assert documents is not None
    assert documents.queued() == []
    running.thread.add([folder])
    while len(running.events) < 5:
        time.sleep(0.01)
    running.thread.close()
    with open_library(paths.documents_file) as library:
        left, there = len(Documents(library).queued()), len(Documents(library).list())
    again = start()
    again.thread.resume()
    if left:
        again.wait(IndexDone)
    documents = again.shelf.documents(make=True)
    assert documents is not None
    assert documents.queued() == []
    assert len(documents.list()) == there + left


def test_a_folder_that_is_not_there_is_a_sentence(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start()
    running.thread.add([tmp_path / "gone"])
    assert running.wait(IndexFailed).error == f"There is no file {tmp_path / 'gone'}."
    running.thread.add([files(tmp_path / "many", 2)])
    running.wait(IndexDone)


def test_another_process_that_adds_is_said(start: Callable[..., Running], tmp_path: Path, paths: Paths) -> None:
    running = start()
    with open_library(paths.documents_file):
        running.thread.add([files(tmp_path / "many", 2)])
        assert "Another process is adding documents" in running.wait(IndexFailed).error
    running.thread.add([tmp_path / "many"])  # it has ended
    assert running.wait(IndexDone).added == {"added": 2}


def test_removing_tells_whose_pages_are_to_be_forgotten(
    start: Callable[..., Running], tmp_path: Path, database: Database
) -> None:
    running = start()
    folder = files(tmp_path / "many", 1)
    running.thread.add([folder])
    running.wait(IndexDone)
    documents = running.shelf.documents()
    assert documents is not None
    (document,) = documents.list()
    conversation_id = Conversations(database).create().id
    running.shelf.attachments.attach(conversation_id, [str(folder)])
    running.thread.remove([document])
    removed = running.wait(DocumentsRemoved)
    assert removed.owners == (f"document:{document.id}", conversation_id)
    assert documents.list() == []
