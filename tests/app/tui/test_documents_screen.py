"""Documents in the screen: opened, listed, cited, and looked at, with real files and a real library."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octavo.app.assistant.chat import AnswerDone, AnswerRetrying, AnswerStarted, AnswerText
from octavo.app.assistant.history import system_of
from octavo.app.documents.index_events import IndexFailed
from octavo.app.tui.dropped import dropped_paths, named_paths
from octavo.app.tui.screens.documents import DocumentsScreen
from octavo.app.tui.screens.evidence import EvidenceScreen
from octavo.app.tui.screens.source import SourceScreen
from octavo.app.tui.widgets.document_line import cited_places, linked
from octavo.storage.documents import StoredDocument

Start = Callable[..., Any]
LEASE = "# Lease\n\nThe rent is 1,250 euros a month.\n\n# Garden\n\nThe garden has 4 trees.\n"


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    path = tmp_path / "my lease.md"
    path.write_text(LEASE)
    return path


async def opened(running: Any, *names: str) -> list[StoredDocument]:
    """The documents that are open in the conversation, once those of these names have arrived."""
    shelf = running.screen.backend.shelf

    def there() -> bool:
        found = shelf.open_in(running.screen.conversation_id)[1] if running.screen.conversation_id else []
        return {document.name for document in found} >= set(names)

    await running.wait(there, "the documents")
    await running.wait(lambda: not running.screen.backend.index.is_busy, "the end")
    await running.settle()
    return list(shelf.open_in(running.screen.conversation_id)[1])


@pytest.mark.parametrize(
    "shown", ["{}", "'{}'", '"{}"', "file://{quoted}", "{escaped}", "  {}\n"], ids=range(6)
)  # fmt: skip
def test_a_dropped_path_is_recognised_however_the_terminal_writes_it(lease: Path, shown: str) -> None:
    text = shown.format(lease, quoted=str(lease).replace(" ", "%20"), escaped=str(lease).replace(" ", "\\ "))
    assert dropped_paths(text) == [lease]


@pytest.mark.parametrize("text", ["", "my lease.md", "/no/such/file", "see /etc please", "/", "~nobody/x"])
def test_other_pastes_are_text(text: str) -> None:
    assert dropped_paths(text) == ([Path("/")] if text == "/" else [])


def test_several_paths_are_dropped_together(tmp_path: Path, lease: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("x")
    assert dropped_paths(f"'{lease}' {other}") == [lease, other]
    assert dropped_paths(f"{other} {tmp_path / 'gone.md'}") == []


@pytest.mark.parametrize(
    "written", ["{}", "'{}'", '"{}"', "{escaped}", "./{}", "  {} ", "{absolute}", "file://{quoted}"], ids=range(8)
)
def test_a_named_path_may_be_relative_and_quoted(lease: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.chdir(lease.parent)
    escaped, quoted = lease.name.replace(" ", "\\ "), str(lease).replace(" ", "%20")
    text = written.format(lease.name, absolute=lease, escaped=escaped, quoted=quoted)
    assert [path.absolute() for path in named_paths(text)] == [lease]


def test_named_paths_are_told_apart_and_those_that_are_not_there_are_named(
    tmp_path: Path, lease: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.md").write_text("x")
    assert named_paths("'my lease.md' other.md") == [Path("my lease.md"), Path("other.md")]
    assert named_paths("other.md gone.md") == [Path("other.md"), Path("gone.md")]
    assert named_paths('"my gone.md"') == [Path("my gone.md")]
    assert named_paths("my gone.md") == [Path("my gone.md")]
    assert named_paths("it's gone.md") == [Path("it's gone.md")]
    assert named_paths("~nobody-here/x") == [Path("~nobody-here/x")]
    assert named_paths("a\0b") == [Path("a\0b")]


async def test_open_takes_a_quoted_relative_path(start: Start, lease: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lease.parent)
    async with start() as running:
        await running.screen.run_command('/open "my lease.md"')
        assert [document.path for document in await opened(running, "my lease.md")] == [str(lease)]


async def test_open_begins_a_conversation_named_after_the_document(start: Start, lease: Path) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        (document,) = await opened(running, "my lease.md")
        assert running.conversations.get(running.screen.conversation_id).title == "my lease.md"
        await running.wait(lambda: "▤ my lease.md · searched" in running.text(), "the bar")
        await running.screen.action_new()
        await running.settle()
        assert "▤" not in running.text()
        assert document.outcome == "ok"


async def test_what_was_added_before_a_failure_is_counted(start: Start, lease: Path) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        await opened(running, "my lease.md")
        running.screen.documents_bar.change(num_documents=0, work="Embedding")
        running.engine.emit(IndexFailed("No embedder [x]."))
        await running.wait(lambda: running.screen.documents_bar.state.num_documents == 1, "the count")
        await running.wait(lambda: "No embedder [x]." in running.text(), "the sentence")
        assert not running.screen.documents_bar.state.work


@pytest.mark.parametrize("first", ["/open", "/system"])
async def test_a_system_prompt_meets_a_document(start: Start, lease: Path, first: str) -> None:
    """Both begin a conversation, in either order, and its first message has the system prompt."""
    async with start() as running:
        commands = [f"/open {lease}", "/system Be brief."]
        for command in commands if first == "/open" else commands[::-1]:
            await running.screen.run_command(command)
            await running.settle()
        await opened(running, "my lease.md")
        await running.send("How high is the rent?")
        path = running.conversations.path(running.screen.conversation_id)
        assert system_of(path, "default") == "Be brief."
        await running.screen.action_new()
        await running.send("Hello")
        path = running.conversations.path(running.screen.conversation_id)
        assert system_of(path, "default") == "default"


async def test_esc_leaves_what_one_is_in_before_it_stops_the_reading(
    start: Start, lease: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[bool] = []
    async with start() as running:
        monkeypatch.setattr(running.engine.reader, "stop", lambda: stops.append(True) or True)
        await running.send("Hello")
        running.screen.transcript.entries[-1].focus()
        await running.pilot.press("escape")
        assert running.screen.prompt.has_focus
        await running.pilot.press("ctrl+e", "escape")
        assert running.screen.editing_id is None
        assert stops == []
        await running.pilot.press("escape")
        assert stops == [True]
        assert "reading paused until the next answer" in running.text()
        wanted: list[str | None] = []
        monkeypatch.setattr(running.engine.reader, "want", wanted.append)
        await running.send("Hello again")
        await running.wait(lambda: wanted == [running.screen.conversation_id], "reading goes on")


async def test_a_dropped_file_asks_first(start: Start, lease: Path) -> None:
    async with start() as running:
        running.screen.prompt.focus()
        from textual import events

        running.screen.prompt.post_message(events.Paste(str(lease)))
        await running.wait(lambda: "Open my lease.md?" in running.text(), "the question")
        await running.pilot.press("n")
        await running.settle()
        assert running.screen.prompt.text == str(lease)
        running.screen.prompt.set_text("")
        running.screen.prompt.post_message(events.Paste(str(lease)))
        await running.wait(lambda: "Open my lease.md?" in running.text(), "the question")
        await running.pilot.press("y")
        await opened(running, "my lease.md")


async def test_what_cannot_be_asked_about_is_said(start: Start, tmp_path: Path) -> None:
    """An empty file ends in a sentence, not in a spinner (open-webui#14664)."""
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    async with start() as running:
        await running.screen.run_command(f"/open {empty}")
        await running.wait(lambda: "empty.txt cannot be asked about (empty)" in running.text(), "the sentence")
        await running.wait(lambda: not running.screen.backend.index.is_busy, "the end")


async def test_a_protected_pdf_asks_for_its_password(start: Start, tmp_path: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    path = tmp_path / "secret.pdf"
    canvas = Canvas(str(path), encrypt=StandardEncryption("open sesame", canPrint=0))
    canvas.drawString(72, 700, "The safe is behind the mirror.")
    canvas.save()
    async with start() as running:
        await running.screen.run_command(f"/open {path}")
        await running.wait(lambda: "Password of secret.pdf" in running.text(), "the question")
        await running.pilot.press(*"open", "space", *"sesame", "enter")
        shelf = running.screen.backend.shelf
        await running.wait(lambda: shelf.askable(running.screen.conversation_id)[1], "the document")
        assert "sesame" not in running.text()


async def test_a_folder_is_opened_while_the_screen_goes_on_and_esc_stops_it(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number:03}.txt").write_text(f"The number of this file is {number}.")
    async with start() as running:
        await running.screen.run_command(f"/open {folder}")
        await running.wait(lambda: "Reading files" in running.text(), "the progress")
        running.screen.prompt.insert("typed meanwhile")
        await running.pilot.press("escape")
        await running.wait(lambda: not running.screen.backend.index.is_busy, "the end")
        await running.settle()
        assert running.screen.prompt.text == "typed meanwhile"
        documents = running.screen.backend.shelf.documents()
        assert documents.queued() == []
        assert "many" in running.text()


async def test_what_a_quit_left_is_taken_up_at_the_next_start(start: Start, lease: Path) -> None:
    """gpt4all#1757."""
    from octavo.storage.documents import Documents
    from octavo.storage.library import open_library
    from octavo.storage.paths import Paths

    with open_library(Paths.from_environment().documents_file) as database:
        Documents(database).enqueue([str(lease)])
    async with start() as running:
        shelf = running.screen.backend.shelf
        await running.wait(lambda: shelf.documents() and shelf.documents().list(), "the document")
        assert [document.name for document in shelf.documents().list()] == ["my lease.md"]


async def test_the_list_closes_opens_and_removes(start: Start, lease: Path) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        (document,) = await opened(running, "my lease.md")
        await running.pilot.press("f5")
        await running.wait(lambda: "● my lease.md" in running.text(), "the list")
        await running.pilot.press("m")
        await running.wait(lambda: "always searched" in running.text(), "the mode")
        await running.pilot.press("enter")
        await running.wait(lambda: "○ my lease.md" in running.text(), "it is closed")
        await running.pilot.press("delete")
        await running.wait(lambda: "Remove my lease.md?" in running.text(), "the question")
        await running.pilot.press("y")
        await running.wait(lambda: "There are no documents yet" in running.text(), "it is gone")
        assert isinstance(running.app.screen, DocumentsScreen)
        forgotten = [call[1] for call in running.engine.calls if call[0] == "forget"]
        assert forgotten == [f"document:{document.id}", running.screen.conversation_id]
        assert lease.exists()


def record_of(document: StoredDocument, **changes: Any) -> dict[str, Any]:
    start = LEASE.index("The rent")
    end = LEASE.index("\n\n# Garden")
    citation = {
        "id": "C1",
        "document": document.id,
        "page": None,
        "start": start,
        "end": end,
        "quote": LEASE[start:end],
        "supported": True,
        "sentence": "The rent is 1,250 euros.",
        "by_model": True,
    }
    row = {
        "id": "C1",
        "document": document.name,
        "page": None,
        "start": 0,
        "end": end,
        "decision": "chosen",
        "reason": "among the best",
        "tokens": 12,
        "word_rank": 1,
        "word_score": 1.0,
        "vector_rank": None,
        "cosine": None,
        "fused": 0.1,
        "reranked": None,
        "document_id": document.id,
    }
    record = {
        "citations": [citation],
        "ledger": [row],
        "mode": "search",
        "refused": False,
        "coverage": 1.0,
        "missing_words": [],
        "nearest": [],
        "unsupported": [],
        "unknown_ids": [],
        "pages_read": None,
        "notes": [],
    }
    return record | changes


async def answer(running: Any, text: str, record: dict[str, Any]) -> None:
    """An answer from documents, as the engine's thread tells it."""
    conversation_id = running.screen.conversation_id
    row = running.conversations.add_message(conversation_id, None, "assistant", "", status="streaming")

    def tell() -> None:
        running.engine.emit(AnswerStarted(row, (), 10, 1000))
        running.conversations.update_message(row.id, text=text, token_ids=(), status="complete", record=record)
        running.engine.emit(AnswerDone(replace(row, text=text, status="complete", record=record), None))

    thread = threading.Thread(target=tell)
    thread.start()
    await running.wait(lambda: running.screen.transcript.parts[-1:] and text[:10] in running.text(), "the answer")
    thread.join()
    await running.settle()


async def test_a_citation_opens_its_source_at_the_span(start: Start, lease: Path) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        (document,) = await opened(running, "my lease.md")
        await answer(running, "The rent is 1,250 euros [C1].", {"documents": record_of(document)})
        assert "searched" in running.text()
        running.screen.transcript.entries[-1].focus()
        await running.pilot.press("1")
        await running.wait(lambda: isinstance(running.app.screen, SourceScreen), "the source")
        await running.wait(lambda: running.app.screen.passage is not None, "the passage")
        assert running.app.screen.passage.marked == "The rent is 1,250 euros a month."
        assert "Garden" in running.text()
        await running.pilot.press("escape")
        await running.pilot.press("v")
        await running.wait(lambda: isinstance(running.app.screen, EvidenceScreen), "the ledger")
        assert "chosen: among the best" in running.text()
        assert "borne out" in running.text()


@pytest.mark.parametrize(("size", "is_broad"), [((80, 24), False), ((160, 48), True)])
async def test_a_page_of_a_pdf_is_shown_as_a_picture(
    start: Start, tmp_path: Path, size: tuple[int, int], is_broad: bool
) -> None:
    from reportlab.pdfgen.canvas import Canvas

    path = tmp_path / "deed.pdf"
    canvas = Canvas(str(path), pagesize=(300, 400))
    canvas.drawString(20, 300, "The safe is behind the mirror.")
    canvas.save()
    async with start(size=size) as running:
        await running.screen.run_command(f"/open {path}")
        (document,) = await opened(running, "deed.pdf")
        running.screen.show_source(document.id, [(0, 30)], "[C1]")
        await running.wait(lambda: isinstance(running.app.screen, SourceScreen), "the source")
        source = running.app.screen
        await running.wait(lambda: source.has_class("-pictured"), "the picture")
        await running.settle()
        text, page = source.query_one("#source"), source.query_one("#source-page")
        assert (text.display, page.display) == (True, is_broad)
        await running.pilot.press("p")
        await running.settle()
        assert (text.display, page.display) == (False, True)
        assert page.has_focus
        width = page.virtual_size.width
        assert "█" in running.text() or "▄" in running.text() or "▀" in running.text()
        await running.pilot.press("plus", "plus")
        await running.settle()
        assert page.virtual_size.width > 1.8 * width
        await running.pilot.press("minus", "minus", "minus")
        await running.settle()
        assert page.virtual_size.width == width
        await running.pilot.press("p")
        await running.settle()
        assert (text.display, page.display) == (True, is_broad)


async def test_without_a_picture_the_text_is_shown_and_why(start: Start, tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    path = tmp_path / "deed.pdf"
    canvas = Canvas(str(path))
    canvas.drawString(20, 300, "The safe is behind the mirror.")
    canvas.save()
    async with start() as running:
        await running.screen.run_command(f"/open {path}")
        (document,) = await opened(running, "deed.pdf")
        path.unlink()
        running.screen.show_source(document.id, [(0, 30)], "[C1]")
        await running.wait(lambda: "is not there any more" in running.text(), "the sentence")
        assert "The safe is behind the mirror." in running.text()
        await running.pilot.press("p", "plus")  # nothing to show larger


LONG_ANSWER = "The rent is 1,250 euros [C1]. It is due each month [C1]. The garden has 4 trees [C1]."


def cited_thrice(document: StoredDocument) -> dict[str, Any]:
    record = record_of(document)
    (rent,) = record["citations"]
    start = LEASE.index("The garden")
    trees = rent | {"start": start, "end": start + 23, "quote": LEASE[start : start + 23], "supported": False}
    return record | {"citations": [rent, dict(rent), trees]}


async def test_citations_of_one_source_are_one_button_and_each_mark_opens_its_own_place(
    start: Start, lease: Path
) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        (document,) = await opened(running, "my lease.md")
        await answer(running, LONG_ANSWER, {"documents": cited_thrice(document)})
        assert "sources  [C1]?  evidence  searched" in running.text()
        entry = running.screen.transcript.entries[-1]
        for place, marked in ((0, "The rent is 1,250 euros a month."), (2, "The garden has 4 trees.")):
            entry.action_ask(f"cite #{place}")
            await running.wait(lambda: isinstance(running.app.screen, SourceScreen), "the source")
            await running.wait(lambda: running.app.screen.passage is not None, "the passage")
            assert running.app.screen.passage.marked == marked
            assert len(running.app.screen.passage.marks) == 2
            await running.pilot.press("escape")
        await running.screen.run_command("/source 2")
        await running.wait(lambda: "The last answer has no source 2." in running.text(), "the sentence")
        await running.screen.run_command("/source")
        await running.wait(lambda: isinstance(running.app.screen, SourceScreen), "the source")


def test_where_several_documents_are_cited_each_is_named() -> None:
    def cite(name: str, document: str, page: int | None) -> dict[str, Any]:
        return {"id": name, "document": document, "page": page, "start": 0, "end": 9, "supported": True}

    ledger = [{"document_id": "a", "document": "lease.md"}, {"document_id": "b", "document": "deed.pdf"}]
    record = {"ledger": ledger, "citations": [cite("C1", "a", None), cite("C2", "b", 4)]}
    assert [place.label for place in cited_places(record)] == ["C1 lease.md", "C2 deed.pdf p.4"]
    assert [place.label for place in cited_places(record | {"citations": [cite("C2", "b", 4)]})] == ["C2 p.4"]


def test_marks_are_links_to_their_own_citations() -> None:
    def cite(name: str) -> dict[str, Any]:
        return {"id": name}

    record = {"citations": [cite("C1"), cite("C2"), cite("C1")]}
    text = linked("A [C1]. B [C2] [C1]. C [C9], [x](C1).", record)
    assert text == "A [[C1]](cite:#0). B [[C2]](cite:#1) [[C1]](cite:#2). C [C9], [x](C1)."


async def test_a_text_is_marked_as_unchecked_until_it_is_checked(start: Start, lease: Path) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        (document,) = await opened(running, "my lease.md")
        store, conversation_id = running.conversations, running.screen.conversation_id
        row = store.add_message(conversation_id, None, "assistant", "", status="streaming", record={"unchecked": True})
        running.engine.emit(AnswerStarted(row, (), 10, 1000))
        running.engine.emit(AnswerText(row.id, "The rent is 900 euros.", 5))
        await running.wait(lambda: "draft, checked against the sources when it ends" in running.text(), "the footer")
        assert running.screen.transcript.entries[-1].has_class("-unchecked")
        running.engine.emit(AnswerRetrying(row.id, "1 sentence not borne out, trying again"))
        await running.wait(lambda: "1 sentence not borne out, trying again" in running.text(), "the state")
        record = {"unchecked": False, "documents": record_of(document)}
        running.engine.emit(AnswerDone(replace(row, text="It is 1,250 [C1].", status="complete", record=record), None))
        await running.wait(lambda: "It is 1,250 [C1]." in running.text(), "the answer")
        await running.settle()
        assert not running.screen.transcript.entries[-1].has_class("-unchecked")
        assert "never checked" not in running.text()
        broken = replace(row, text="The rent is 900 euros.", status="error", record={"unchecked": True, "error": "x"})
        running.engine.emit(AnswerDone(broken, None))
        await running.wait(lambda: "never checked against the sources" in running.text(), "the note")


async def test_a_refusal_shows_what_came_nearest(start: Start, lease: Path) -> None:
    async with start() as running:
        await running.screen.run_command(f"/open {lease}")
        (document,) = await opened(running, "my lease.md")
        nearest = [{"document": "my lease.md", "document_id": document.id, "page": None, "start": 0, "end": 9}]
        nearest[0]["text"] = "The garden has *4* trees."
        record = record_of(document, refused=True, citations=[], missing_words=["sky"], nearest=nearest)
        await answer(running, "The documents do not answer this.", {"documents": record})
        await running.wait(lambda: "Not found in them: sky." in running.text(), "what is missing")
        assert "my lease.md: The garden has *4* trees." in running.text()
        running.screen.transcript.entries[-1].focus()
        await running.pilot.press("1")
        await running.wait(lambda: isinstance(running.app.screen, SourceScreen), "the source")
        await running.pilot.press("escape")
        assert "not answered, searched" in running.text()
