"""A document read whole by a real model: in the background, over restarts, past the context, and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from octavo.app.assistant.assistant import Assistant, load_assistant
from octavo.app.documents.answer import DocumentAnswer, Prepared, Retrying
from octavo.app.documents.asking import Asker, Question
from octavo.app.documents.attempt import Attempt
from octavo.app.documents.background import BackgroundReader, DocumentReading
from octavo.app.documents.index import Indexer
from octavo.app.documents.parse import Reader
from octavo.app.documents.removing import remove_document
from octavo.app.documents.shelf import Shelf
from octavo.app.documents.whole import WholeDocuments, owner_of
from octavo.app.settings import Settings
from octavo.engine.config import GenerationPolicy
from octavo.storage.attachments import Attachments
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.documents import StoredDocument
from octavo.storage.paths import Paths

pytestmark = pytest.mark.model

POLICY = GenerationPolicy(temperature=0.0, max_tokens=12)


def text_of(num_sections: int) -> str:
    """Sections that differ in their numbers alone."""
    sections = (
        f"# Section {n}\n\nThe tank of house {n} holds {n * 37} litres of water.\n" for n in range(num_sections)
    )
    return "\n".join(sections)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(*(tmp_path / name for name in ("config", "data", "cache", "state")))


class Opened:
    """A document, open in a conversation."""

    def __init__(self, shelf: Shelf, document: StoredDocument, conversation_id: str) -> None:
        self.shelf, self.document, self.conversation_id = shelf, document, conversation_id


@pytest.fixture
def opened(paths: Paths, tmp_path: Path, reader: Reader) -> Iterator[Callable[..., Opened]]:
    """opened(sections, **settings) -> a document of so many sections in a conversation."""
    with open_database(tmp_path / "octavo.db") as database:
        shelves: list[Shelf] = []

        def call(num_sections: int, *, before: str = "", **settings: Any) -> Opened:
            path = tmp_path / "tanks.md"
            path.write_text(before + text_of(num_sections))
            shelf = Shelf(paths, Settings(embedder="off", **settings), Attachments(database))
            shelves.append(shelf)
            documents = shelf.documents(make=True)
            assert documents is not None
            (result,) = Indexer(documents, reader).add([path])
            assert result.document is not None
            conversation_id = Conversations(database).create().id
            shelf.attachments.attach(conversation_id, [str(path)])
            return Opened(shelf, result.document, conversation_id)

        yield call
        for shelf in shelves:
            shelf.close()


@contextmanager
def loaded(model: Path, paths: Paths, **settings: Any) -> Iterator[Assistant]:
    chosen = Settings(**{"vram": "128MiB", "disk": "128MiB", **settings})
    with closing(load_assistant(model, chosen, paths, fingerprint="small")) as assistant:
        yield assistant


def read_in_background(assistant: Assistant, opened: Opened, steps: int = 10_000) -> list[DocumentReading]:
    """What the reader tells in so many steps of the engine."""
    told: list[DocumentReading] = []
    reader = BackgroundReader(opened.shelf, told.append, lambda: None)
    reader._told = -1e9
    reader.want(opened.conversation_id)
    left = [steps]

    def is_free() -> bool:
        left[0] -= 1
        return left[0] >= 0

    reader.work(assistant, is_free)
    reader.pause(assistant)
    return told


def ask(assistant: Assistant, opened: Opened, mode: Any = "auto") -> DocumentAnswer:
    documents = opened.shelf.documents()
    assert documents is not None
    question = Question("How many litres does the tank of house 3 hold?", [opened.document], mode)
    return Asker(assistant, documents, POLICY).ask(question)


def is_known(assistant: Assistant, opened: Opened) -> bool:
    documents = opened.shelf.documents()
    assert documents is not None
    whole = WholeDocuments(assistant, documents).get(opened.document, 100_000)
    assert whole is not None
    return whole.is_known(assistant)


def test_reading_goes_on_where_it_was_left_and_search_answers_meanwhile(
    small_model: Path, paths: Paths, opened: Callable[..., Opened]
) -> None:
    tanks = opened(90)
    with loaded(small_model, paths) as assistant:
        assert not read_in_background(assistant, tanks, steps=2)[-1].is_done
        assert ask(assistant, tanks).mode == "search"
        told = read_in_background(assistant, tanks)
        assert told[-1].is_done
        assert told[-1].total == told[-1].done > 60
        answer = ask(assistant, tanks)
        assert answer.mode == "read"
        assert answer.answer is not None
        metrics = answer.answer.metrics
        assert metrics.computed_tokens < 4 * 32 < metrics.reused_tokens
        assert assistant.engine.is_idle
    with loaded(small_model, paths) as later:
        assert read_in_background(later, tanks, steps=1)[-1].is_done  # found on disk: nothing is computed
        again = ask(later, tanks)
        assert again.mode == "read"
        assert again.text == answer.text
        assert again.answer is not None
        assert again.answer.metrics.reused_disk > 2_000


def test_a_removed_document_leaves_every_tier(small_model: Path, paths: Paths, opened: Callable[..., Opened]) -> None:
    tanks = opened(20)
    with loaded(small_model, paths) as assistant:
        read_in_background(assistant, tanks)
        assert is_known(assistant, tanks)
        used = assistant.engine.cache.used_bytes
        assert assistant.engine.forget(owner_of(tanks.document)) > 0
        assert not is_known(assistant, tanks)
        assert assistant.engine.cache.used_bytes < used
        read_in_background(assistant, tanks)
    documents = tanks.shelf.documents()
    assert documents is not None
    forgotten = remove_document(documents, tanks.document, [tanks.conversation_id], paths)
    assert forgotten.disk > 100_000
    assert forgotten.problem == ""
    assert documents.list() == []


@pytest.mark.parametrize("before", ["", "# T\n\n## I\n\n### One\n\n" + "Rain fell on the roofs. " * 60 + "\n\n"])
def test_longer_than_what_is_read_in_full_the_parts_selected_are_told(
    small_model: Path, paths: Paths, opened: Callable[..., Opened], before: str
) -> None:
    sparse = {"dense_limit": 512, "window": 512, "selected": 512, "prefill_chunk": 256}
    tanks = opened(90, before=before, **sparse)
    with loaded(small_model, paths, **sparse) as assistant:
        answer = ask(assistant, tanks, "read")
        assert answer.mode == "read"
        assert answer.parts
        documents = tanks.shelf.documents()
        assert documents is not None
        text = documents.text(tanks.document)
        for part in answer.parts:
            assert 0 <= part.start < part.end <= len(text)
            assert part.times > 0
            assert part.text == " ".join(text[part.start : part.end].split())
        assert [part.times for part in answer.parts] == sorted((part.times for part in answer.parts), reverse=True)


def test_too_long_for_the_context_is_said_and_searched(
    small_model: Path, paths: Paths, opened: Callable[..., Opened]
) -> None:
    tanks = opened(90)
    with loaded(small_model, paths, context=1024, window=512) as assistant:
        answer = ask(assistant, tanks, "read")
        assert answer.mode == "search"
        assert "tanks.md is longer than the" in answer.notes[-1]
        tanks.shelf.attachments.set_mode(tanks.conversation_id, "read")
        assert "the setting context makes more room" in read_in_background(assistant, tanks)[-1].note


def second_document(opened: Opened, tmp_path: Path, reader: Reader, text: str) -> StoredDocument:
    """Another document in the same conversation."""
    path = tmp_path / "orchard.md"
    path.write_text(text)
    documents = opened.shelf.documents()
    assert documents is not None
    (result,) = Indexer(documents, reader).add([path])
    assert result.document is not None
    opened.shelf.attachments.attach(opened.conversation_id, [str(path)])
    return result.document


ORCHARD = "\n".join(f"# Row {n}\n\nThe apple trees of row {n} were planted in {1900 + n}.\n" for n in range(120))


def test_several_documents_are_read_one_after_the_other_each_with_its_own_pages(
    small_model: Path, paths: Paths, opened: Callable[..., Opened], tmp_path: Path, reader: Reader
) -> None:
    tanks = opened(90)
    orchard = second_document(tanks, tmp_path, reader, ORCHARD)
    both = [tanks.document, orchard]
    documents = tanks.shelf.documents()
    assert documents is not None
    with loaded(small_model, paths) as assistant:
        told = read_in_background(assistant, tanks)
        assert [told[-1].num_read, told[-1].num_documents, told[-1].is_done] == [2, 2, True]
        assert {reading.document for reading in told} == {"tanks.md", "orchard.md"}
        assert not any(reading.is_done for reading in told[:-1])
        wholes = WholeDocuments(assistant, documents)
        for document in both:
            whole = wholes.get(document, 100_000)
            assert whole is not None
            assert whole.is_known(assistant)
        # Each is forgotten by itself.
        assert assistant.engine.forget(owner_of(orchard)) > 0
        kept = wholes.get(tanks.document, 100_000)
        assert kept is not None
        assert kept.is_known(assistant)


@pytest.mark.parametrize(
    ("question", "mode", "read"),
    [
        ("How many litres does the tank of house 3 hold?", "auto", "tanks.md"),
        ("When were the apple trees of row 7 planted?", "auto", "orchard.md"),
        ("When were the apple trees of row 7 planted?", "search", None),
        ("What are these documents about?", "auto", None),
        ("What are these documents about?", "read", None),
    ],
)
def test_of_several_documents_the_one_that_covers_the_question_is_read(
    small_model: Path, paths: Paths, opened: Callable[..., Opened], tmp_path: Path, reader: Reader,
    question: str, mode: Any, read: str | None,
) -> None:  # fmt: skip
    tanks = opened(20)
    orchard = second_document(tanks, tmp_path, reader, "\n".join(ORCHARD.splitlines()[:80]))
    documents = tanks.shelf.documents()
    assert documents is not None
    with loaded(small_model, paths) as assistant:
        answer = Asker(assistant, documents, POLICY).ask(Question(question, [tanks.document, orchard], mode))
        assert (answer.read, answer.mode) == (read, "read" if read else "search")
        rows = [row.as_json() for row in answer.evidence.ledger]
        for row in rows if read else ():
            assert row["decision"] == ("read" if row["document"] == read else "left out")


def test_documents_read_whole_are_asked_until_one_answers(
    small_model: Path, paths: Paths, opened: Callable[..., Opened], tmp_path: Path, reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    tanks = opened(10)
    other = second_document(tanks, tmp_path, reader, "The tank of house 3 holds 500 litres of rain water.\n")
    documents = tanks.shelf.documents()
    assert documents is not None
    asked: list[str] = []

    def is_borne_out(attempt: Attempt) -> bool:
        asked.append(attempt._task.whole.document.name)  # type: ignore[union-attr]
        return answering in asked

    monkeypatch.setattr(Attempt, "is_borne_out", property(is_borne_out))
    with loaded(small_model, paths) as assistant:
        asker = Asker(assistant, documents, POLICY)
        question = Question("How many litres does the tank of house 3 hold?", [tanks.document, other], "read")
        answering = "none"
        *events, answer = asker.events(question)
        assert isinstance(answer, DocumentAnswer)
        assert answer.refused
        first, second = dict.fromkeys(asked)
        whys = [event.why for event in events if isinstance(event, Retrying)]
        assert f"not in {first}, reading {second}" in whys
        assert sum(isinstance(event, Prepared) for event in events) == 1
        asked.clear()
        answering = first
        answer = asker.ask(question)
        assert (answer.refused, answer.read) == (False, first)
        assert f"Not asked, although it may answer too: {second}." in answer.notes
