"""Documents in their database: versions, words of every script, ranges, vectors, removal without traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.storage import chunk_search, chunk_vectors
from octavo.storage.database import Database, DatabaseBusyError, DatabaseMissingError
from octavo.storage.documents import Documents, NewDocument, StoredDocument
from octavo.storage.errors import StorageError
from octavo.storage.library import open_library


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_library(tmp_path / "documents.db") as database:
        yield database


@pytest.fixture
def documents(database: Database) -> Documents:
    return Documents(database)


def new(name: str, *chunks: str, sha: str = "", **values: Any) -> NewDocument:
    rows, place = [], 0
    for text in chunks:
        rows.append((place, place + len(text), None, values.pop("headings", "[]"), values.pop("head", ""), text))
        place += len(text)
    facts = {"kind": "text", "notes": []}
    return NewDocument(f"/d/{name}", name, 1, 2, sha or name, "t", "ok", facts, [], [], place, rows)


def found(documents: Documents, query: str, *among: StoredDocument) -> list[str]:
    hits = documents.search_words(query, among, 10)
    chunks = documents.chunks(hit.chunk for hit in hits)
    return [chunks[hit.chunk].text for hit in hits]


def test_text_is_its_chunks_and_a_change_is_a_version(documents: Documents) -> None:
    first = documents.put(new("a.txt", "One. ", "Two.", sha="1"))
    assert documents.text(first) == "One. Two."
    second = documents.put(new("a.txt", "Three.", sha="2"))
    assert (second.id, second.version, documents.text(second)) == (first.id, 2, "Three.")
    assert [version for version, _, _ in documents.versions(second.seq)] == [1, 2]
    assert found(documents, "one") == []
    assert found(documents, "three") == ["Three."]
    assert documents.put(new("a.txt", "Three.", sha="2")).version == 2


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("@nasa", "Follow @nasa for news."),  # mulder#152
        ("会议", "今天的会议讨论了三个问题。"),  # claude-mem#3801
        ("议", "今天的会议讨论了三个问题。"),
        ("題", "重要な問題"),
        ("회의", "오늘 회의에서 결정했다."),
        ("ภาษา", "นี่คือภาษาไทย"),
        ("cafe", "Ein Café in Köln."),
        ("KÖLN", "Ein Café in Köln."),
        ("snake_case", "def snake_case(x): ..."),
        ('a" OR "b', "He said a OR b."),
        ("C++ std::vector", "The type std::vector of C++."),
        ("zürich's", "In Zürich's old town."),
    ],
)
def test_words_of_every_kind_are_found(documents: Documents, query: str, text: str) -> None:
    documents.put(new("other.txt", "Entirely different matter 123."))
    documents.put(new("a.txt", text))
    assert found(documents, query)[0] == text


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_no_query_is_an_error(documents: Documents, query: str) -> None:
    documents.search_words(query, (), 5)


def test_search_keeps_to_the_documents_asked(documents: Documents) -> None:
    one, two, three = (documents.put(new(name, f"heron {name}")) for name in ("a", "b", "c"))
    assert found(documents, "heron", two) == ["heron b"]
    assert sorted(found(documents, "heron", one, three)) == ["heron a", "heron c"]
    empty = documents.put(new("d"))
    assert found(documents, "heron", empty) == []


def test_large_libraries_find_rare_words_first_and_common_ones_order(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_search, "_SMALL", 10)
    monkeypatch.setattr(chunk_search, "_RARE", 20)
    documents.put(new("a", *(f"common words number {n}. " for n in range(300)), "rare heron.", "rare heron common."))
    assert found(documents, "common rare")[0] == "rare heron common."
    assert found(documents, "rare heron")[:2] == ["rare heron.", "rare heron common."]
    assert found(documents, "common words")[0].startswith("common words")
    assert found(documents, "absent") == []


def test_vectors_by_signs_find_what_comparing_all_finds(
    documents: Documents, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    stored = []
    for name in "abc":
        vectors = rng.standard_normal((200, 384)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        document = documents.put(new(name, *(f"{name}{n} " for n in range(200))))
        documents.put_vectors(document, "e", vectors)
        stored.append((document, vectors))
    target, vectors = stored[1]
    query = vectors[17] + 0.3 * rng.standard_normal(384).astype(np.float32) / 20
    query = (query / np.linalg.norm(query)).astype(np.float32)
    exact = documents.search_vectors(query, "e", [document for document, _ in stored], 5)
    monkeypatch.setattr(chunk_vectors, "_EXACT", 10)
    by_signs = documents.search_vectors(query, "e", [document for document, _ in stored], 5)
    assert exact[0].chunk == by_signs[0].chunk == target.first_chunk + 17
    assert exact[0].score == pytest.approx(float(vectors[17] @ query), abs=1e-3)
    assert documents.search_vectors(query, "other", [target], 5) == []
    assert {hit.chunk for hit in documents.search_vectors(query, "e", [target], 500)} == set(
        range(target.first_chunk, target.first_chunk + 200)
    )


def test_removing_leaves_no_trace(documents: Documents, database: Database) -> None:
    kept = documents.put(new("kept", "A heron stands."))
    gone = documents.put(new("gone", "The xylophonist sleeps.", headings='["Zugzwang"]'))
    documents.put_vectors(gone, "e", np.ones((1, 8), np.float32))
    documents.remove(gone.seq)
    assert [document.id for document in documents.list()] == [kept.id]
    assert found(documents, "xylophonist") == []
    assert found(documents, "heron") == ["A heron stands."]
    database.close()
    data = database.path.read_bytes()
    assert b"xylophonist" not in data
    assert b"zugzwang" not in data


def test_resolving(documents: Documents) -> None:
    one = documents.put(new("a.txt", "x"))
    assert documents.resolve(one.id[:14]).id == documents.resolve("a.txt").id == documents.resolve("/d/a.txt").id
    with pytest.raises(StorageError, match=r"There is no document b.txt; `octavo docs list`"):
        documents.resolve("b.txt")


def test_the_queue_outlives_the_process(tmp_path: Path) -> None:
    """gpt4all#1757: indexing was lost on quit."""
    with open_library(tmp_path / "d.db") as database:
        documents = Documents(database)
        documents.enqueue(["/d/a", "/d/b"])
        documents.put(new("a", "x"))
    with open_library(tmp_path / "d.db") as database:
        assert Documents(database).queued() == ["/d/b"]


def test_opening(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with pytest.raises(DatabaseMissingError, match="octavo docs add"):
        open_library(path, write=False)
    with open_library(path) as database:
        Documents(database).put(new("a", "x"))
        with pytest.raises(DatabaseBusyError):
            open_library(path)
        with open_library(path, write=False) as other:
            assert [document.name for document in Documents(other).list()] == ["a"]
    foreign = tmp_path / "other.db"
    import sqlite3

    connection = sqlite3.connect(foreign)
    connection.execute("PRAGMA application_id = 7")
    connection.execute("CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(StorageError, match="of another kind"):
        open_library(foreign)
