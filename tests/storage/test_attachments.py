"""What a conversation asks about, and who is to forget when a document goes."""

from __future__ import annotations

from pathlib import Path

from octavo.storage.attachments import Attached, Attachments
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.document_records import NewDocument
from octavo.storage.documents import Documents
from octavo.storage.library import open_library


def test_paths_are_opened_closed_and_deleted_with_their_conversation(tmp_path: Path) -> None:
    with open_database(tmp_path / "octavo.db") as database:
        conversations, attachments = Conversations(database), Attachments(database)
        one, other = conversations.create().id, conversations.create().id
        assert attachments.of(one) == Attached()
        attachments.attach(one, ["/b.md", "/a.md"])
        attachments.set_mode(one, "read")
        attachments.attach(one, ["/books"])
        attachments.attach(other, ["/a.md"])
        assert attachments.of(one) == Attached(("/a.md", "/b.md", "/books"), "read")
        attachments.detach(one, "/a.md")
        assert attachments.of(one).paths == ("/b.md", "/books")
        assert attachments.holders("/a.md") == sorted([one, other])  # closed, but once read
        assert attachments.holders("/books/deep/file.txt") == [one]
        assert attachments.holders("/bookshelf/file.txt") == []
        conversations.delete(other)
        assert attachments.holders("/a.md") == [one]


def _document(path: str, text: str) -> NewDocument:
    chunks = [(0, len(text), None, "[]", "", text)]
    return NewDocument(path, Path(path).name, 1, 1, path, path, "ok", {}, [], [], len(text), chunks)


def test_a_folder_is_all_below_it_and_no_namesake(tmp_path: Path) -> None:
    with open_library(tmp_path / "documents.db") as database:
        documents = Documents(database)
        for path in ("/x/a.md", "/x/y/b.md", "/xy/c.md", "/x0.md", "/x"):
            documents.put(_document(path, "text"))
        assert [document.path for document in documents.below("/x")] == ["/x", "/x/a.md", "/x/y/b.md"]
        assert [document.path for document in documents.below("/x/a.md")] == ["/x/a.md"]


def test_many_documents_with_gaps_between_them_are_searched(tmp_path: Path) -> None:
    """More ranges than SQLite allows terms in an expression."""
    with open_library(tmp_path / "documents.db") as database:
        documents = Documents(database)
        with documents.together():
            for number in range(3000):
                documents.put(_document(f"/d/{number:04}", f"word{number} common"))
        chosen = documents.list()[::2]
        hits = documents.search_words("word1200", chosen, 5)
        assert [hit.chunk for hit in hits] == [documents.by_path("/d/1200").first_chunk]  # type: ignore[union-attr]
