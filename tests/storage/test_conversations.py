"""Conversations: what is kept of a message, the list and its order."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from octavo.storage.conversations import Conversation, Conversations
from octavo.storage.database import Database
from octavo.storage.errors import StorageError
from octavo.storage.ids import new_id


def test_importing_costs_neither_sqlite_utils_nor_torch() -> None:
    code = (
        "import sys, octavo.storage.conversations, octavo.storage.database, octavo.storage.export\n"
        "print(sorted({'sqlite_utils', 'torch', 'numpy', 'click'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_ids_sort_by_time() -> None:
    ids = [new_id() for _ in range(2000)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 2000
    assert {len(each) for each in ids} == {26}


class TestMessages:
    def test_everything_said_comes_back(self, conversations: Conversations, chat: Conversation) -> None:
        question = conversations.add_message(chat.id, None, "user", "Was ist 2 + 2?\n\n[b]fett[/b] \x00 🦊")
        answer = conversations.add_message(
            chat.id,
            question.id,
            "assistant",
            "4",
            status="cancelled",
            model="small",
            token_ids=[0, 1, 2**32 - 1],
            record={"usage": {"prompt": 3}, "left_out": [], "finish_reason": "cancelled"},
        )

        assert conversations.path(chat.id) == [question, answer]
        assert conversations.tree(chat.id) == [question, answer]
        assert conversations.message(answer.id) == answer
        assert (question.status, question.model, question.token_ids, question.record) == ("complete", "", (), {})
        with pytest.raises(FrozenInstanceError):
            answer.text = "5"  # type: ignore[misc]
        now = conversations.get(chat.id)
        assert (now.leaf_id, now.num_messages, now.updated) == (answer.id, 2, answer.created)

    def test_answer_that_is_streamed(self, conversations: Conversations, chat: Conversation) -> None:
        answer = conversations.add_message(chat.id, None, "assistant", "", status="streaming", record={"seed": 7})

        conversations.update_message(answer.id, text="half an", token_ids=[1, 2], status="streaming")
        flushed = conversations.message(answer.id)
        unfinished = conversations.search("half")
        conversations.update_message(
            answer.id, text="half an answer", token_ids=[1, 2, 3], status="error", record={"error": "out of pages"}
        )

        assert (flushed.text, flushed.token_ids, flushed.record) == ("half an", (1, 2), {"seed": 7})
        assert unfinished == []
        ended = conversations.message(answer.id)
        assert (ended.text, ended.status, ended.record) == ("half an answer", "error", {"error": "out of pages"})
        assert [hit.message_id for hit in conversations.search("answer")] == [answer.id]

    def test_interrupted(self, conversations: Conversations, chat: Conversation) -> None:
        whole = conversations.add_message(chat.id, None, "assistant", "whole")
        broken = conversations.add_message(chat.id, None, "assistant", "", status="streaming")
        conversations.update_message(broken.id, text="broken off", token_ids=[1], status="streaming")

        assert conversations.mark_interrupted() == 1
        assert conversations.mark_interrupted() == 0
        assert conversations.message(broken.id).status == "interrupted"
        assert conversations.message(whole.id).status == "complete"
        assert [hit.message_id for hit in conversations.search("broken")] == [broken.id]

    def test_text_that_is_no_unicode_is_kept_as_far_as_it_goes(
        self, conversations: Conversations, chat: Conversation
    ) -> None:
        message = conversations.add_message(chat.id, None, "user", "caf\udce9 \ud83d", record={"error": "\udce9"})
        conversations.rename(chat.id, "\udce9")

        assert message.text == "caf\ufffd \ufffd"
        assert conversations.path(chat.id)[0] == message
        assert conversations.get(chat.id).title == "\ufffd"

    def test_what_is_not_there(self, conversations: Conversations, chat: Conversation) -> None:
        other = conversations.create("Other")
        elsewhere = conversations.add_message(other.id, None, "user", "elsewhere")
        gone = "0" * 26

        for use in (
            lambda: conversations.get(gone),
            lambda: conversations.path(gone),
            lambda: conversations.path(chat.id, gone),
            lambda: conversations.path(chat.id, elsewhere.id),
            lambda: conversations.rename(gone, "x"),
            lambda: conversations.delete(gone),
            lambda: conversations.add_message(gone, None, "user", "x"),
            lambda: conversations.add_message(chat.id, gone, "user", "x"),
            lambda: conversations.add_message(chat.id, elsewhere.id, "user", "x"),
            lambda: conversations.update_message(gone, text="", token_ids=[], status="complete"),
            lambda: conversations.message(gone),
            lambda: conversations.siblings(gone),
            lambda: conversations.select_branch(gone),
        ):
            with pytest.raises(StorageError):
                use()
        assert conversations.path(chat.id) == []
        assert conversations.get(chat.id).num_messages == 0


class TestDamagedRows:
    """What the check at start cannot see: bytes that SQLite takes for values like any other."""

    def test_the_text_is_kept_as_far_as_it_goes(
        self, database: Database, conversations: Conversations, chat: Conversation
    ) -> None:
        message = conversations.add_message(chat.id, None, "assistant", "an answer", token_ids=[1, 2], record={"a": 1})
        damages = ("text = CAST(x'616EFF62' AS TEXT)", "token_ids = x'010203'", "record = '{\"a\": '")
        found = []
        for damage in damages:
            with database.atomic() as connection:
                connection.execute(f"UPDATE messages SET {damage}")  # noqa: S608
            found += conversations.path(chat.id)

        assert [each.id for each in found] == [message.id] * 3
        assert {each.text for each in found} == {"an\ufffdb"}
        assert (found[0].token_ids, found[0].record) == ((1, 2), {"a": 1})
        assert (found[1].token_ids, found[2].token_ids) == ((), ())
        assert all(each.record == {"error": "The details of this message are damaged."} for each in found[1:])

    def test_parents_in_a_circle_end(
        self, database: Database, conversations: Conversations, chat: Conversation
    ) -> None:
        first = conversations.add_message(chat.id, None, "user", "first")
        second = conversations.add_message(chat.id, first.id, "assistant", "second")
        with database.atomic() as connection:
            connection.execute("UPDATE messages SET parent_id = ? WHERE id = ?", [second.id, first.id])

        assert [message.id for message in conversations.path(chat.id)] == [first.id, second.id]
        assert conversations.select_branch(first.id).id == second.id
        assert conversations.select_branch(second.id).id == second.id


class TestList:
    def test_newest_activity_first(self, conversations: Conversations) -> None:
        first, second, third = (conversations.create(name) for name in ("first", "second", "third"))
        assert conversations.list() == [third, second, first]

        conversations.add_message(first.id, None, "user", "again")

        assert [found.title for found in conversations.list()] == ["first", "third", "second"]
        conversations.rename(second.id, "renamed\n\ttwice ")
        assert [found.title for found in conversations.list()] == ["first", "third", "renamed twice"]

    def test_page_by_page(self, conversations: Conversations) -> None:
        everything = [conversations.create(f"number {number}") for number in range(25)][::-1]
        pages, before = [], None
        while page := conversations.list(limit=10, before=before):
            pages.append(page)
            before = (page[-1].updated, page[-1].id)

        assert [len(page) for page in pages] == [10, 10, 5]
        assert [found for page in pages for found in page] == everything

    def test_filter_by_title_or_content(self, conversations: Conversations) -> None:
        by_title = conversations.create("Reise nach Zürich")
        by_content = conversations.create("Anderes")
        conversations.add_message(by_content.id, None, "user", "Wie weit ist es nach Zürich?")
        conversations.create("Nichts davon")

        assert {found.id for found in conversations.list(query="zurich")} == {by_title.id, by_content.id}
        assert [found.id for found in conversations.list(query="zurich weit")] == [by_content.id]
        assert conversations.list(query="nirgends") == []
        assert len(conversations.list(query=" ?! ")) == 3
        conversations.rename(by_title.id, "Reise nach Bern")
        assert [found.id for found in conversations.list(query="zurich")] == [by_content.id]
        assert [found.id for found in conversations.list(query="bern")] == [by_title.id]

    def test_id_by_its_beginning(self, conversations: Conversations) -> None:
        one, two = conversations.create("one"), conversations.create("two")
        length = next(n for n in range(27) if one.id[:n] != two.id[:n])

        assert conversations.resolve(one.id[:length]) == one
        assert conversations.resolve(two.id.upper()) == two
        for prefix, says in (
            (one.id[:4], "More than one"),
            (one.id[:3], "at least 4"),
            ("zzzzz", "no conversation zzzzz"),
            ("%%%%", "no conversation"),
            (one.id + "0", "no conversation"),
        ):
            with pytest.raises(StorageError, match=says):
                conversations.resolve(prefix)

    def test_titles_of_those_that_are_there(self, conversations: Conversations) -> None:
        one, two = conversations.create("one"), conversations.create("two")
        assert conversations.titles({one.id, "gone"}) == {one.id: "one"}
        assert conversations.titles([two.id, one.id]) == {one.id: "one", two.id: "two"}
        assert conversations.titles(()) == {}
