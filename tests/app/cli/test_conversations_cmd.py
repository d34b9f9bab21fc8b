"""`octavo conversations`, and `octavo ask --conversation`, on a database in a home of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant.assistant import Answer, TextEvent
from octavo.app.cli import opening
from octavo.engine.config import GenerationPolicy
from octavo.engine.errors import UnsupportedModelError
from octavo.engine.events import AnswerMetrics
from octavo.engine.tokenizer import Message
from octavo.storage.conversations import Conversations
from octavo.storage.database import open_database
from octavo.storage.pages import open_store
from octavo.storage.paths import Paths

METRICS = AnswerMetrics(5, 0, 0, 0, 0, 5, 2, 0.0, 0.1, 0.2, 10.0, 12.0, 100.0, 0.3)

Octavo = Callable[..., Any]


@pytest.fixture
def stored(octavo_home: Path) -> dict[str, str]:
    """Two conversations, the one about birds the newer, and their ids by name."""
    with open_database(Paths.from_environment().database_file) as database:
        conversations = Conversations(database)
        ids = {}
        for name, text, reply in (
            ("fish", "Do fish sleep?", "Yes, [b]some[/b] do."),
            ("birds", "Why do birds sing?", "To be heard — 鳥."),
        ):
            conversation = conversations.create(text)
            question = conversations.add_message(conversation.id, None, "user", text)
            conversations.add_message(conversation.id, question.id, "assistant", reply, token_ids=(1, 2), model="m")
            ids[name] = conversation.id
        conversations.add_message(ids["birds"], None, "user", "Do birds sleep?")
    return ids


def in_database(look: Callable[[Conversations], Any]) -> Any:
    with open_database(Paths.from_environment().database_file, write=False) as database:
        return look(Conversations(database))


def test_nothing_stored_is_no_error_for_a_list(octavo: Octavo) -> None:
    assert octavo("conversations", "list").out == "There are no conversations yet.\n"
    assert octavo("conversations", "list", "--json").out == "[]\n"
    assert octavo("conversations", "search", "fish").code == 0
    shown = octavo("conversations", "show", "last")
    assert shown.code == 1
    assert shown.err.startswith("Error: There is no database at ")


def test_list_shows_the_newest_first(octavo: Octavo, stored: dict[str, str]) -> None:
    lines = octavo("conversations", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [stored["birds"][:12], stored["fish"][:12]]
    assert lines[1].endswith(" 3  Why do birds sing?")
    documents = json.loads(octavo("conversations", "list", "--json").out)
    assert [document["id"] for document in documents] == [stored["birds"], stored["fish"]]
    assert documents[0]["num_messages"] == 3


def test_list_can_be_limited_and_filtered(octavo: Octavo, stored: dict[str, str]) -> None:
    limited = octavo("conversations", "list", "--limit", "1").out
    assert stored["fish"][:12] not in limited
    assert "--limit 2" in limited
    (document,) = json.loads(octavo("conversations", "list", "fish", "sleep", "--json").out)
    assert document["id"] == stored["fish"]
    assert octavo("conversations", "list", "horses").out == "No conversation holds these words.\n"


def test_show_prints_the_path_being_read(octavo: Octavo, stored: dict[str, str]) -> None:
    out = octavo("conversations", "show", stored["fish"][:12]).out
    assert "Do fish sleep?" in out
    assert out.endswith("Yes, [b]some[/b] do.\n")
    assert "Why do birds sing?" not in octavo("conversations", "show", "last").out.split("\n", 1)[1]
    document = json.loads(octavo("conversations", "show", "last", "--json").out)
    assert [message["text"] for message in document["messages"]] == [
        "Why do birds sing?",
        "To be heard — 鳥.",
        "Do birds sleep?",
    ]


def test_search_shows_where_the_words_are(octavo: Octavo, stored: dict[str, str]) -> None:
    lines = octavo("conversations", "search", "birds", "sing").out.splitlines()
    assert lines == [f"{stored['birds'][:12]}  Why do birds sing?", "    Why do birds sing?"]
    (hit,) = json.loads(octavo("conversations", "search", "鳥", "--json").out)
    assert hit["conversation_id"] == stored["birds"]
    assert "鳥" in hit["snippet"]
    assert not set(hit["snippet"]) & {"\x02", "\x03"}
    assert octavo("conversations", "search", '"', "(", "*").out == "No message holds these words.\n"


@pytest.mark.parametrize(
    ("arguments", "is_json"), [(["x.md"], False), (["x.json"], True), (["x.txt", "--format", "json"], True)]
)
def test_export_writes_a_file(
    octavo: Octavo, stored: dict[str, str], tmp_path: Path, arguments: list[str], is_json: bool
) -> None:
    file = tmp_path / arguments[0]
    result = octavo("conversations", "export", stored["birds"], "-o", str(file), *arguments[1:])
    assert (result.code, result.out) == (0, "")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("{" if is_json else "# Why do birds sing?")
    if is_json:
        assert len(json.loads(text)["messages"]) == 3
        assert json.loads(text)["messages"][1]["token_ids"] == [1, 2]


def test_export_without_a_file_prints(octavo: Octavo, stored: dict[str, str]) -> None:
    shown = octavo("conversations", "show", "last").out
    assert octavo("conversations", "export", "last").out == shown


def test_a_file_that_cannot_be_written_is_named(octavo: Octavo, stored: dict[str, str], tmp_path: Path) -> None:
    result = octavo("conversations", "export", "last", "-o", str(tmp_path / "no" / "x.md"))
    assert result.code == 1
    assert result.err == f"Error: {tmp_path / 'no' / 'x.md'} could not be written: No such file or directory.\n"


def test_delete_asks_first(octavo: Octavo, stored: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    assert octavo("conversations", "delete", stored["fish"]).code == 130
    assert in_database(lambda conversations: len(conversations.list())) == 2
    result = octavo("conversations", "delete", stored["fish"], stored["birds"][:20], "--yes")
    assert result.out == "Deleted “Do fish sleep?”.\nDeleted “Why do birds sing?”.\n"
    assert in_database(lambda conversations: conversations.list()) == []


@dataclass(frozen=True)
class Page:
    owner: str
    identity: bytes = b"p" * 32
    parent: bytes = b"r" * 32
    token_ids: tuple[int, ...] = (1, 2, 3, 4)
    origin: str = "prefill"
    data: bytes = bytes(256)


@pytest.fixture
def kept(stored: dict[str, str]) -> dict[str, str]:
    """The conversation about fish has a page in the store, of three units of 4 KiB."""
    with open_store(Paths.from_environment().pages_dir, 16 << 20) as store:
        assert store.open_space(b"r" * 32, {}, 2, 128, 4).write([Page(stored["fish"])]) == [None]
    return stored


def num_pages() -> int:
    with open_store(Paths.from_environment().pages_dir, None, write=False) as store:
        return store.stats().num_pages


def test_delete_forgets_what_is_kept_on_disk(octavo: Octavo, kept: dict[str, str]) -> None:
    result = octavo("conversations", "delete", kept["birds"], kept["fish"], "--yes")
    assert result.out == ("Deleted “Why do birds sing?”.\nDeleted “Do fish sleep?”. 8.19 kB on disk are free again.\n")
    assert (result.code, result.err, num_pages()) == (0, "", 0)


def test_delete_beside_a_process_that_has_the_page_store_is_made_up_for(octavo: Octavo, kept: dict[str, str]) -> None:
    with open_store(Paths.from_environment().pages_dir, None):
        result = octavo("conversations", "delete", kept["fish"], "--yes")
    assert (result.code, result.out) == (0, "Deleted “Do fish sleep?”.\n")
    assert result.err.startswith("Pages of what was deleted are still on disk and go when `octavo` starts")
    assert result.err.count("\n") == num_pages() == 1
    octavo("conversations", "delete", kept["birds"], "--yes")
    assert num_pages() == 0


@pytest.mark.parametrize("arguments", [["show"], ["delete", "--yes"], ["export"]])
@pytest.mark.parametrize("given", ["zzzz", "zz"])
def test_an_unknown_id_is_one_sentence(
    octavo: Octavo, stored: dict[str, str], arguments: list[str], given: str
) -> None:
    result = octavo("conversations", *arguments, given)
    assert (result.code, result.out) == (1, "")
    assert given in result.err
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err


def test_delete_is_refused_while_octavo_is_open_and_reading_is_not(octavo: Octavo, stored: dict[str, str]) -> None:
    with open_database(Paths.from_environment().database_file):
        assert octavo("conversations", "list").code == 0
        result = octavo("conversations", "delete", "last", "--yes")
    assert result.code == 1
    assert "already open" in result.err


class FakeAssistant:
    """Says "Hello [b]you[/b]", and remembers the prompts as text. Its tokens are characters."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.engine = SimpleNamespace(max_context=400)
        self.tokenizer = SimpleNamespace(
            encode=lambda text: [ord(character) for character in text],
            decode=lambda ids: "".join(map(chr, ids)),
            encode_chat=lambda messages: [ord(c) for message in messages for c in self.written(message)],
        )
        self.error: Exception | None = None
        self.budgets = None

    @staticmethod
    def written(message: Message) -> str:
        return f"{message.role}: {message.content}\n"

    def take_problems(self) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def answer_prompt(self, prompt: list[int], policy: GenerationPolicy, **_: Any) -> Iterator[TextEvent | Answer]:
        self.prompts.append("".join(map(chr, prompt)))
        if self.error is not None:
            raise self.error
        yield TextEvent("Hello ", (72,))
        yield TextEvent("[b]you[/b]", (73,))
        yield Answer("Hello [b]you[/b]", (1, 2), "stop", METRICS, policy, None)


@pytest.fixture
def fake(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> FakeAssistant:
    assistant = FakeAssistant()
    monkeypatch.setattr(opening, "open_assistant", lambda settings: (assistant, "fake"))
    monkeypatch.setattr("sys.stdin", None)
    return assistant


def test_ask_begins_a_conversation_and_continues_it(octavo: Octavo, fake: FakeAssistant) -> None:
    begun = octavo("ask", "First?", "--conversation", "new")
    assert (begun.code, begun.out) == (0, "Hello [b]you[/b]\n")
    (conversation,) = in_database(lambda conversations: conversations.list())
    assert begun.err.count(conversation.id[:12]) == 2
    continued = octavo("ask", "Second?", "--conversation", conversation.id[:12])
    assert (continued.out, continued.err) == ("Hello [b]you[/b]\n", "")
    assert fake.prompts[-1] == "user: First?\nassistant: Hello [b]you[/b]\nuser: Second?\n"
    document = json.loads(octavo("ask", "Third?", "--conversation", "last", "--json").out)
    assert (document["conversation"], document["text"]) == (conversation.id, "Hello [b]you[/b]")
    path = in_database(lambda conversations: conversations.path(conversation.id))
    assert [message.text for message in path if message.role == "user"] == ["First?", "Second?", "Third?"]
    assert path[-1].id == document["message"]


def test_ask_says_what_the_model_does_not_see(octavo: Octavo, fake: FakeAssistant) -> None:
    octavo("ask", "a" * 150, "--conversation", "new", "--max-tokens", "50")
    told = octavo("ask", "b" * 150, "--conversation", "last", "--max-tokens", "50")
    assert told.err == (
        "2 earlier messages (166 tokens) are not in the prompt, which has 157 tokens of the context of 400.\n"
    )
    assert "a" * 150 not in fake.prompts[-1]


def test_ask_refuses_what_cannot_fit_with_the_numbers(octavo: Octavo, fake: FakeAssistant) -> None:
    result = octavo("ask", "a" * 500, "--conversation", "new", "--max-tokens", "50")
    assert (result.code, result.out) == (1, "")
    assert "507 tokens" in result.err
    assert fake.prompts == []


def test_an_answer_that_fails_is_an_error_and_stays_in_the_conversation(octavo: Octavo, fake: FakeAssistant) -> None:
    fake.error = UnsupportedModelError("The model cannot.")
    result = octavo("ask", "Hi", "--conversation", "new")
    assert (result.code, result.out, result.err) == (1, "", "Error: The model cannot.\n")
    (conversation,) = in_database(lambda conversations: conversations.list())
    path = in_database(lambda conversations: conversations.path(conversation.id))
    assert [message.status for message in path] == ["complete", "error"]


@pytest.mark.parametrize("given", ["last", "zzzz"])
def test_an_unknown_conversation_is_refused_before_the_model_is_loaded(
    octavo: Octavo, fake: FakeAssistant, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setattr(opening, "open_assistant", None)
    result = octavo("ask", "Hi", "--conversation", given)
    assert result.code == 1
    assert result.err.startswith("Error: There is no conversation")


def test_ask_remembers_raises_the_alarm_and_recalls(octavo: Octavo, fake: FakeAssistant) -> None:
    fake.engine.max_context = 4096
    told = octavo("ask", "I'm severely allergic to caffeine.", "--conversation", "new")
    assert "Remembered: “I'm severely allergic to caffeine.”" in told.err
    told = octavo("ask", "I like coffee.", "--conversation", "new")
    assert "tension: There is an allergy to caffeine" in told.err
    assert "said on" in told.err
    told = octavo("ask", "What should I drink?", "--conversation", "new", "-v")
    assert "Recalled: “I'm severely allergic to caffeine.”" in told.err
    assert "allergic to caffeine" in fake.prompts[-1]
    document = json.loads(octavo("ask", "And you?", "--conversation", "last", "--json").out)
    assert len(document["memories"]["ids"]) == 1


def test_ask_without_memory(octavo: Octavo, fake: FakeAssistant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_MEMORY", "off")
    told = octavo("ask", "I'm severely allergic to caffeine.", "--conversation", "new", "--json")
    assert json.loads(told.out)["memories"] is None
    assert json.loads(octavo("memory", "list", "--json").out) == []
