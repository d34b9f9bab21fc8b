"""Turns of a conversation that documents are open in: where the prompt puts what, what is kept, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant.assistant import Assistant
from octavo.app.assistant.chat import AnswerDone, AnswerRetrying, AnswerStarted, AnswerText, Chat
from octavo.app.documents.index import Indexer
from octavo.app.documents.parse import Reader
from octavo.app.documents.shelf import Shelf
from octavo.app.settings import Settings, load_settings
from octavo.storage.attachments import Attachments
from octavo.storage.conversations import Conversations
from octavo.storage.database import Database
from octavo.storage.paths import Paths

LEASE = "# Lease\n\nThe rent is 1,250 euros a month.\n\n# Garden\n\nThe garden has 4 trees.\n"
RENT = "The rent is 1,250 euros a month [C1]."


@pytest.fixture
def settings(octavo_home: Path) -> Settings:
    return load_settings({"generation": {"max_tokens": 100}, "embedder": "off"})


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    path = tmp_path / "lease.md"
    path.write_text(LEASE)
    return path


@pytest.fixture
def shelf(database: Database, settings: Settings, lease: Path) -> Iterator[Shelf]:
    shelf = Shelf(Paths.from_environment(), settings, Attachments(database))
    documents = shelf.documents(make=True)
    assert documents is not None
    with Reader() as reader:
        list(Indexer(documents, reader).add([lease]))
    yield shelf
    shelf.close()


@pytest.fixture
def chat(assistant: Assistant, conversations: Conversations, settings: Settings, shelf: Shelf, engine: Any) -> Chat:
    engine.inspection = SimpleNamespace(num_known=lambda ids: 0)
    engine.config = SimpleNamespace(page_size=32)
    return Chat(assistant, conversations, settings, "fake", None, shelf)


@pytest.fixture
def conversation_id(conversations: Conversations, shelf: Shelf, lease: Path) -> str:
    found = conversations.create().id
    shelf.attachments.attach(found, [str(lease)])
    return found


def ask(chat: Chat, conversation_id: str, text: str) -> AnswerDone:
    *_, done = chat.turn(conversation_id, text)
    assert isinstance(done, AnswerDone)
    return done


def prompt(engine: Any, place: int = -1) -> str:
    return "".join(map(chr, engine.prompts[place]))


@pytest.mark.parametrize("mode", ["search", "read"])
def test_an_answer_is_checked_and_kept_with_what_it_cites(
    chat: Chat, conversation_id: str, shelf: Shelf, conversations: Conversations, engine: Any, mode: Any
) -> None:
    shelf.attachments.set_mode(conversation_id, mode)
    engine.answer = "The rent is 1,250 euros a month."
    events = list(chat.turn(conversation_id, "How high is the rent?"))
    assert "".join(event.text for event in events if isinstance(event, AnswerText)) == engine.answer
    assert [type(event) for event in events if not isinstance(event, AnswerText)][1:] == [AnswerStarted, AnswerDone]
    message = conversations.path(conversation_id)[-1]
    assert (message.text, message.status) == (RENT, "complete")
    record = message.record["documents"]
    assert (record["mode"], record["refused"]) == (mode, False)
    (citation,) = record["citations"]
    assert LEASE[citation["start"] : citation["end"]] == "The rent is 1,250 euros a month."
    assert message.record["usage"]["generated_tokens"] == len(engine.answer)
    assert engine.owners == [conversation_id]


def test_ids_in_the_ledger_are_those_that_citations_have(
    chat: Chat, conversation_id: str, shelf: Shelf, lease: Path, engine: Any
) -> None:
    """In a document that is read whole every chunk has its own: open-webui#11592."""
    long = "# House\n\n" + "The house stands on a hill above the river. " * 12 + f"\n\n{LEASE}"
    lease.write_text(long)
    documents = shelf.documents()
    assert documents is not None
    with Reader() as reader:
        list(Indexer(documents, reader).add([lease]))
    shelf.attachments.set_mode(conversation_id, "read")
    engine.answer = "The garden has 4 trees."
    record = ask(chat, conversation_id, "How many trees has the garden?").message.record["documents"]
    (citation,) = record["citations"]
    assert citation["id"] != "C1"
    rows = {row["id"]: row for row in record["ledger"]}
    assert rows[citation["id"]]["start"] <= citation["start"] < rows[citation["id"]]["end"]
    assert {row["decision"] for row in rows.values()} == {"read"}


def test_a_document_read_whole_comes_before_everything_that_changes(
    chat: Chat, conversation_id: str, shelf: Shelf, engine: Any
) -> None:
    shelf.attachments.set_mode(conversation_id, "read")
    engine.answer = RENT
    ask(chat, conversation_id, "How high is the rent?")
    ask(chat, conversation_id, "How many trees has the garden?")
    first, second = prompt(engine, 0), prompt(engine, 1)
    end = first.index("</sources>\x02")
    assert second[:end] == first[:end]
    assert "The garden has 4 trees." in first[:end]
    assert second.index("How high is the rent?") > end
    assert second.index("The rent is 1,250 euros a month.\x02") > end


def test_ids_of_earlier_answers_are_not_in_the_prompt_again(
    chat: Chat, conversation_id: str, shelf: Shelf, engine: Any
) -> None:
    """They named the sources of another question: open-webui#12655."""
    shelf.attachments.set_mode(conversation_id, "search")
    engine.answer = RENT
    ask(chat, conversation_id, "How high is the rent?")
    ask(chat, conversation_id, "How many trees has the garden?")
    history = prompt(engine).partition("<sources>\n")[0]
    assert "The rent is 1,250 euros a month." in history
    assert "[C1]" not in history.partition("\x02")[2]


def test_every_turn_may_be_refused_and_then_nothing_is_generated(
    chat: Chat, conversation_id: str, conversations: Conversations, engine: Any
) -> None:
    engine.answer = RENT
    ask(chat, conversation_id, "How high is the rent?")
    done = ask(chat, conversation_id, "Why is the sky blue?")
    assert done.answer is None
    assert len(engine.prompts) == 1
    message = conversations.path(conversation_id)[-1]
    assert message.text == "The documents do not answer this."
    assert message.record["documents"]["refused"]
    assert message.record["documents"]["missing_words"] == ["sky", "blue"]


def test_a_refusal_names_the_nearest_passages_even_where_none_was_good_enough(
    chat: Chat, conversation_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("octavo.app.documents.evidence._is_below", lambda candidate, best: True)
    done = ask(chat, conversation_id, "Where does the rent of the sky go, and why is it blue?")
    record = done.message.record["documents"]
    assert record["refused"]
    assert record["nearest"][0]["text"].startswith("# Lease")
    assert {row["decision"] for row in record["ledger"]} == {"left out"}


def test_a_question_that_points_back_is_looked_up_with_the_one_before(
    chat: Chat, conversation_id: str, engine: Any
) -> None:
    engine.answer = RENT
    ask(chat, conversation_id, "How high is the rent?")
    assert ask(chat, conversation_id, "And how many euros is it?").answer is not None


def test_without_text_in_what_is_open_everything_is_refused(
    chat: Chat, conversation_id: str, shelf: Shelf, lease: Path, tmp_path: Path, engine: Any
) -> None:
    shelf.attachments.detach(conversation_id, str(lease))
    shelf.attachments.attach(conversation_id, [str(tmp_path / "not-there-yet.md")])
    done = ask(chat, conversation_id, "How high is the rent?")
    assert done.message.record["documents"]["refused"]
    assert engine.prompts == []


def test_a_closed_document_answers_no_more(
    chat: Chat, conversation_id: str, shelf: Shelf, lease: Path, engine: Any
) -> None:
    shelf.attachments.detach(conversation_id, str(lease))
    done = ask(chat, conversation_id, "How high is the rent?")
    assert done.message.text == engine.answer
    assert "documents" not in done.message.record


def test_what_was_written_before_a_stop_is_kept(
    chat: Chat, conversation_id: str, conversations: Conversations, engine: Any
) -> None:
    engine.answer = "The rent is 1,250 euros a month. " * 3
    events = chat.turn(conversation_id, "How high is the rent?", is_cancelled=lambda: engine.steps > 40)
    *_, done = events
    assert isinstance(done, AnswerDone)
    message = conversations.path(conversation_id)[-1]
    assert message.status == "cancelled"
    assert message.text.startswith("The rent is 1,250 euros a month [C1].")


def test_turns_that_do_not_fit_beside_the_document_leave_and_are_listed(
    chat: Chat, conversation_id: str, conversations: Conversations, shelf: Shelf, engine: Any
) -> None:
    shelf.attachments.set_mode(conversation_id, "read")
    engine.answer, engine.max_context = RENT, 1_500
    for _ in range(20):
        ask(chat, conversation_id, "How high is the rent?")
    record = conversations.path(conversation_id)[-1].record
    assert record["left_out"][0]["messages"] >= 2
    assert record["window"]["prompt_tokens"] == len(engine.prompts[-1]) <= 1_500
    assert prompt(engine).index("The garden has 4 trees.") < prompt(engine).index("How high")


def test_a_summary_in_its_own_words_is_marked_and_not_refused(
    chat: Chat, conversation_id: str, engine: Any, conversations: Conversations
) -> None:
    engine.answer = "A landlord lets something to somebody."
    events = list(chat.turn(conversation_id, "Summarise this document."))
    assert any(isinstance(event, AnswerRetrying) and "1 sentence not borne out" in event.why for event in events)
    message = conversations.path(conversation_id)[-1]
    assert message.text == f"{engine.answer} [unsupported]"
    record = message.record["documents"]
    assert (record["refused"], record["unsupported"], message.record["unchecked"]) == (False, [engine.answer], False)
    assert "three to five" in prompt(engine, 0)


def test_a_draft_is_unchecked_until_it_is_checked(
    chat: Chat, conversation_id: str, engine: Any, conversations: Conversations
) -> None:
    engine.answer = RENT
    started = next(e for e in chat.turn(conversation_id, "How high is the rent?") if isinstance(e, AnswerStarted))
    assert started.message.record["unchecked"] is True
    left = conversations.path(conversation_id)[-1]
    assert (left.status, left.record["unchecked"]) == ("cancelled", True)  # nobody took what followed
    done = ask(chat, conversation_id, "How high is the rent?")
    assert done.message.record["unchecked"] is False
