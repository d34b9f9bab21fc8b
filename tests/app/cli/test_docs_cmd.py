"""`octavo docs` as a person or a script meets it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant.forgetting import Forgotten
from octavo.app.documents.library import open_documents
from octavo.storage.attachments import Attachments
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.paths import Paths


@pytest.fixture
def folder(octavo_home: Path) -> Path:
    folder = Path.cwd() / "papers"
    (folder / "sub" / ".git").mkdir(parents=True)
    (folder / "notes.md").write_text("# Notes\n\nThe heron was seen on 3 May.\n")
    (folder / "sub" / "data.csv").write_text("a,b\n1,2\n")
    (folder / "sub" / "photo.jpg").write_bytes(b"\xff\xd8")
    (folder / "sub" / ".git" / "config.txt").write_text("hidden")
    return folder


def test_a_folder_again_and_changed(octavo: Callable[..., Any], folder: Path) -> None:
    first = octavo("docs", "add", str(folder), "--embedder", "off")
    assert first.code == 0
    assert "Added notes.md (markdown, 38 characters)." in first.out
    assert "1 files of other kinds were passed over." in first.err
    again = octavo("docs", "add", str(folder))
    assert again.out.splitlines() == ["notes.md is there already.", "data.csv is there already."]
    (folder / "notes.md").write_text("# Notes\n\nNo heron.\n")
    assert "Updated notes.md" in octavo("docs", "add", str(folder)).out
    listed = json.loads(octavo("docs", "list", "--json").out)
    assert [(item["name"], item["version"]) for item in listed] == [("data.csv", 1), ("notes.md", 2)]


def test_equal_files_are_one_document_that_follows_its_file(octavo: Callable[..., Any], folder: Path) -> None:
    octavo("docs", "add", str(folder / "notes.md"), "--embedder", "off")
    copy = folder / "copy.md"
    copy.write_bytes((folder / "notes.md").read_bytes())
    assert "is the same file as" in octavo("docs", "add", str(copy)).out
    (folder / "notes.md").unlink()
    assert "notes.md has moved to" in octavo("docs", "add", str(copy)).out
    (item,) = json.loads(octavo("docs", "list", "--json").out)
    assert item["path"] == str(copy)
    copy.unlink()
    assert "(its file is gone)" in octavo("docs", "list").out
    assert "is gone; what was read of it stays" in octavo("docs", "reindex", "--embedder", "off").err
    with open_documents(write=False) as documents:
        assert documents.list()[0].state == "missing"


def test_refused_files_say_why_and_the_code_tells(octavo: Callable[..., Any], folder: Path) -> None:
    empty = folder / "empty.txt"
    empty.write_text("  ")
    result = octavo("docs", "add", str(empty), "--embedder", "off")
    assert result.code == 1
    assert result.out == "empty.txt cannot be asked about (empty). There is no text in it.\n"
    assert octavo("docs", "add", "nowhere.txt").err == "Error: There is no file nowhere.txt.\n"
    assert octavo("docs", "add").code == 2


def test_show_and_remove(octavo: Callable[..., Any], folder: Path) -> None:
    octavo("docs", "add", str(folder / "notes.md"), "--embedder", "off")
    shown = octavo("docs", "show", "notes.md").out
    assert "kind      markdown, ascii" in shown
    assert octavo("docs", "show", "notes.md", "--text").out == "# Notes\n\nThe heron was seen on 3 May.\n\n"
    (chunk,) = json.loads(octavo("docs", "show", "notes.md", "--chunks", "--json").out)
    assert (chunk["start"], chunk["stop"], chunk["headings"]) == (0, 38, ["Notes"])
    assert octavo("docs", "remove", "notes.md", "--yes").out == "Removed notes.md.\n"
    assert octavo("docs", "list").out.startswith("There are no documents yet")
    assert "There is no document notes.md" in octavo("docs", "show", "notes.md").err


def test_standard_input(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO("Grüße".encode()), isatty=lambda: False))
    assert octavo("docs", "add", "-", "--name", "greeting.txt", "--embedder", "off").code == 0
    assert octavo("docs", "show", "greeting.txt", "--text").out == "Grüße\n"


def test_a_stopped_run_goes_on(octavo: Callable[..., Any], folder: Path) -> None:
    from octavo.app.documents.index import Indexer, find_files
    from octavo.app.documents.parse import Reader

    with open_documents(write=True) as documents, Reader() as reader:
        indexer = Indexer(documents, reader)
        done: list[int] = []
        paths = find_files([folder]).paths
        stopped = list(
            indexer.add(
                paths, progress=lambda now, total: done.append(now), is_cancelled=lambda: bool(done and done[-1])
            )
        )
        assert len(stopped) == 1
        assert len(indexer.resume()) == 1
    assert "Added data.csv" in octavo("docs", "add", "--embedder", "off").out
    assert octavo("docs", "add").code == 2


def _protected(name: str) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(name, encrypt=StandardEncryption("open sesame", canPrint=0))
    canvas.drawString(72, 700, "The safe is behind the mirror.")
    canvas.save()


def test_a_protected_document_asks_for_its_password(
    octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _protected("secret.pdf")
    given = iter(["wrong", "open sesame"])
    monkeypatch.setattr("octavo.app.cli.unlocking.click.prompt", lambda *_, **__: next(given))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    result = octavo("docs", "add", "secret.pdf", "--embedder", "off")
    assert result.code == 0
    assert "secret.pdf (pdf, 1 pages" in result.out
    assert list(given) == []


def test_where_nobody_is_there_a_protected_document_is_said_to_be_one(octavo: Callable[..., Any]) -> None:
    _protected("secret.pdf")
    result = octavo("docs", "add", "secret.pdf", "--embedder", "off")
    assert result.code == 1
    assert "secret.pdf cannot be asked about (encrypted)" in result.out


def test_removing_a_document_forgets_its_pages_and_those_of_the_conversations_that_asked_about_it(
    octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from octavo.app.documents import removing

    Path("lease.md").write_text("The rent is 900 euros.\n")
    octavo("docs", "add", "lease.md", "--embedder", "off")
    with open_database(Paths.from_environment().database_file) as database:
        conversation_id = Conversations(database).create().id
        Attachments(database).attach(conversation_id, [str(Path("lease.md").absolute())])
        Attachments(database).detach(conversation_id, str(Path("lease.md").absolute()))
    forgotten: list[str] = []

    def forget(paths: Paths, owner: str) -> Forgotten:
        forgotten.append(owner)
        return Forgotten(disk=1_000_000)

    monkeypatch.setattr(removing, "forget", forget)
    document = json.loads(octavo("docs", "list", "--json").out)[0]
    result = octavo("docs", "remove", "lease.md", "--yes")
    assert result.out == "Removed lease.md. 2.00 MB on disk are free again.\n"
    assert forgotten == [f"document:{document['id']}", conversation_id]
