"""Conversations as documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.storage.conversations import Conversation, Conversations, Role, Status, StoredMessage
from octavo.storage.database import open_database
from octavo.storage.export import to_json, to_markdown

CHAT = Conversation("c1", "About [x]", "2026-01-01T00:00:00.000000+00:00", "2026-01-02T00:00:00.000000+00:00", "m2", 2)


def message(role: Role, text: str, status: Status = "complete") -> StoredMessage:
    return StoredMessage("m", "c1", None, role, text, status, "2026-01-01T00:00:00.000000+00:00", (), "small", {})


@pytest.fixture
def conversations(tmp_path: Path) -> Iterator[Conversations]:
    with open_database(tmp_path / "octavo.db") as database:
        yield Conversations(database)


def test_markdown_of_a_path() -> None:
    document = to_markdown(
        CHAT,
        [
            message("user", "What is `[b]`?"),
            message("assistant", "\n```python\nprint('hi')\n```\n"),
            message("user", "And then?"),
            message("assistant", "It was", "cancelled"),
            message("assistant", "", "error"),
        ],
    )

    assert document == (
        "# About [x]\n\n## You\n\nWhat is `[b]`?\n\n## Octavo\n\n```python\nprint('hi')\n```\n\n"
        "## You\n\nAnd then?\n\n## Octavo (stopped)\n\nIt was\n\n## Octavo (ended by an error)\n"
    )


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("```python\nprint(", "```"),
        ("~~~~\ncode\n~~~\n```", "~~~~"),
        ("````md\n```\ninner\n```", "````"),
        ("   ```\ncode", "```"),
        ("```\ndone\n```", ""),
        ("```\ndone\n`````  ", ""),
        ("```a`b``` inline", ""),
        ("    ```\nindented code is not a fence", ""),
        ("```\nnot closed by\n``` this", "```"),
        ("no code", ""),
    ],
)
def test_block_an_answer_was_stopped_in_is_closed(text: str, closing: str) -> None:
    document = to_markdown(CHAT, [message("assistant", text, "cancelled"), message("user", "next")])

    assert f"{text}\n{closing}\n\n## You".replace("\n\n\n", "\n\n") in document


def test_conversation_without_a_title() -> None:
    untitled = Conversation("c1", "", CHAT.created, CHAT.updated, None, 0)

    assert to_markdown(untitled, []) == "# Untitled conversation\n"


def test_json_holds_every_branch(conversations: Conversations) -> None:
    chat = conversations.create("Branches")
    question = conversations.add_message(chat.id, None, "user", "q 🦊 \u2028")
    first = conversations.add_message(chat.id, question.id, "assistant", "a", token_ids=[5, 6], record={"seed": 1})
    second = conversations.add_message(chat.id, question.id, "assistant", "b", status="interrupted", model="small")

    document = json.loads(json.dumps(to_json(conversations.get(chat.id), conversations.tree(chat.id))))

    assert document["format"] == "octavo-conversation-1"
    assert (document["id"], document["title"], document["leaf_id"]) == (chat.id, "Branches", second.id)
    assert [(each["id"], each["parent_id"]) for each in document["messages"]] == [
        (question.id, None),
        (first.id, question.id),
        (second.id, question.id),
    ]
    assert document["messages"][0]["text"] == "q 🦊 \u2028"
    assert document["messages"][1]["token_ids"] == [5, 6]
    assert document["messages"][1]["record"] == {"seed": 1}
    assert document["messages"][2]["status"] == "interrupted"


def test_json_of_a_chain_deeper_than_the_recursion_limit() -> None:
    tree = [
        StoredMessage(str(n), "c1", str(n - 1) if n else None, "user", "x", "complete", CHAT.created, (), "", {})
        for n in range(10_000)
    ]

    assert len(json.loads(json.dumps(to_json(CHAT, tree)))["messages"]) == 10_000
