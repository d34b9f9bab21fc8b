"""Conversations: the tree and its branches, the list, and finding words in any script."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octavo.storage.conversations import Conversation, Conversations
from octavo.storage.database import Database, open_database
from octavo.storage.errors import StorageError
from octavo.storage.ids import new_id


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_database(tmp_path_factory.mktemp("storage") / "octavo.db") as opened:
        yield opened


@pytest.fixture
def conversations(database: Database) -> Iterator[Conversations]:
    """Empty ones; the file is shared by this module."""
    conversations = Conversations(database)
    yield conversations
    with database.atomic():
        for found in conversations.list(limit=-1):
            conversations.delete(found.id)


@pytest.fixture
def chat(conversations: Conversations) -> Conversation:
    return conversations.create("A chat")


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


class TestBranches:
    def test_edit_and_regenerate_make_siblings(self, conversations: Conversations, chat: Conversation) -> None:
        question = conversations.add_message(chat.id, None, "user", "q")
        answer = conversations.add_message(chat.id, question.id, "assistant", "a")
        follow_up = conversations.add_message(chat.id, answer.id, "user", "f")
        regenerated = conversations.add_message(chat.id, question.id, "assistant", "a again")
        edited = conversations.add_message(chat.id, None, "user", "q, edited")

        assert conversations.siblings(answer.id) == conversations.siblings(regenerated.id)
        assert conversations.siblings(answer.id) == [answer.id, regenerated.id]
        assert conversations.siblings(question.id) == [question.id, edited.id]
        assert conversations.siblings(follow_up.id) == [follow_up.id]
        assert conversations.path(chat.id) == [edited]
        assert conversations.path(chat.id, follow_up.id) == [question, answer, follow_up]
        assert conversations.select_branch(answer.id) == follow_up
        assert conversations.path(chat.id) == [question, answer, follow_up]
        assert conversations.select_branch(question.id) == regenerated
        assert conversations.path(chat.id) == [question, regenerated]

    def test_roots_of_other_conversations_are_no_siblings(
        self, conversations: Conversations, chat: Conversation
    ) -> None:
        mine = conversations.add_message(chat.id, None, "user", "mine")
        conversations.add_message(conversations.create().id, None, "user", "not mine")

        assert conversations.siblings(mine.id) == [mine.id]


class TestDeepConversations:
    @pytest.mark.parametrize("length", [1_200, 10_000])
    def test_one_long_chain(
        self, database: Database, conversations: Conversations, chat: Conversation, length: int
    ) -> None:
        ids = []
        with database.atomic():
            for number in range(length):
                parent = ids[-1] if ids else None
                role = "assistant" if number % 2 else "user"
                ids.append(conversations.add_message(chat.id, parent, role, f"turn {number} of many").id)

        start = time.perf_counter()
        path = conversations.path(chat.id)
        seconds = time.perf_counter() - start

        assert [message.id for message in path] == ids
        # Ten times what it takes (9 us a message) leaves room for a busy machine, and none for a quadratic query.
        assert seconds < 1e-4 * length + 0.1
        assert conversations.select_branch(ids[0]).id == ids[-1]
        assert len(conversations.search("turn many", limit=length + 1)) == length
        conversations.delete(chat.id)
        assert conversations.search("turn") == []
        with database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)


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


class TestSearch:
    @pytest.mark.parametrize(
        ("text", "query", "marked"),
        [
            ("The quick brown fox", "quick fox", "The [quick] brown [fox]"),
            ("The quick brown fox", "BROWN", "The quick [brown] fox"),
            ("The quick brown fox", "qui", "The [quick] brown fox"),
            ("The quick brown fox", "qui ", None),
            ("The quick brown fox", "qui fox", None),
            ("The quick brown fox", '"quick brown"', "The [quick brown] fox"),
            ("The quick brown fox", '"brown quick"', None),
            ("The quick brown fox", '"quick bro', "The [quick] [brown] fox"),
            ("Café, naïve, RÉSUMÉ", "cafe resume", "[Café], naïve, [RÉSUMÉ]"),
            ("Cafe\u0301", "café", "[Cafe\u0301]"),
            ('I said "don\'t" twice', "don't", 'I said "[don\'t]" twice'),
            ("fox AND hound", "AND", "fox [AND] hound"),
            ("fox NEAR hound", "NEAR(fox hound)", None),
            ("C++ and C#", "c++", "[C]++ and [C]#"),
            ("see app/cli/main.py:12", "cli/main.py", "see app/[cli/main.py]:12"),
            ("東京都庁に行きたい", "京都", "東[京都]庁に行きたい"),
            ("東京都庁に行きたい", "庁", "東京都[庁]に行きたい"),
            ("東京都庁に行きたい", "京庁", None),
            ("我爱北京天安门", "北京 天安", "我爱[北京][天安]门"),
            ("ひらがなとカタカナ", "なとカ", "ひらが[なとカ]タカナ"),
            ("학교에서 공부했다", "교에", "학[교에]서 공부했다"),
            ("ภาษาไทยง่าย", "ไทย", "ภาษา[ไทย]ง่าย"),
            ("mixed日本語text", "日本", "mixed[日本]語text"),
            ("mixed日本語text", "text", "mixed日本語[text]"),
            ("a fox 🦊 and a heart ❤️", "🦊", "a fox [🦊] and a heart ❤️"),
            ("a fox 🦊 and a heart ❤️", "❤️", "a fox 🦊 and a heart [❤]️"),
            ("fox🦊fox", "🦊fox", "fox[🦊fox]"),
            ("family 👨‍👩‍👧", "👩", "family 👨‍[👩]‍👧"),
            ("größer als Straße", "grosser", None),
            ("größer als Straße", "großer", "[größer] als Straße"),
            ("مرحبا بالعالم", "مرحبا", "[مرحبا] بالعالم"),
            ("mark\x02ers in \x03text\x1f", "text", "mark ers in [text]"),
        ],
    )
    def test_what_is_found(
        self, conversations: Conversations, chat: Conversation, text: str, query: str, marked: str | None
    ) -> None:
        message = conversations.add_message(chat.id, None, "user", text)

        hits = conversations.search(query)

        assert [hit.snippet.replace("\x02", "[").replace("\x03", "]") for hit in hits] == ([marked] if marked else [])
        assert all(hit.message_id == message.id and hit.title == chat.title for hit in hits)
        assert all(hit.conversation_id == chat.id for hit in hits)

    @pytest.mark.parametrize(
        "query", ["", " ", '"', '""', "'", "*", "(", ")", "^", "-", "+ - *", "::", "\x00", "\ud83d", "🏽" * 3, "‍"]
    )
    def test_queries_without_words(self, conversations: Conversations, chat: Conversation, query: str) -> None:
        conversations.add_message(chat.id, None, "user", "something")

        assert conversations.search(query) == []
        conversations.list(query=query)

    def test_best_first_and_limited(self, conversations: Conversations, chat: Conversation) -> None:
        little = conversations.add_message(chat.id, None, "user", "pages " + "of other words " * 50)
        much = conversations.add_message(chat.id, None, "user", "pages pages pages")

        assert [hit.message_id for hit in conversations.search("pages")] == [much.id, little.id]
        assert len(conversations.search("pages", limit=1)) == 1

    def test_snippet_of_a_long_message(self, conversations: Conversations, chat: Conversation) -> None:
        conversations.add_message(chat.id, None, "assistant", "filler\n" * 40_000 + "needle" + "\nfiller" * 1000)

        (hit,) = conversations.search("needle")

        assert "\x02needle\x03" in hit.snippet
        assert len(hit.snippet) < 300
        assert "\n" not in hit.snippet

    # The query language of the index must not be reachable, whatever is typed.
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(query=st.text(st.characters(codec="utf-8") | st.sampled_from('"*()^-+:{}ANDORNEAR\x00 '), max_size=20))
    def test_no_query_is_an_error(self, conversations: Conversations, query: str) -> None:
        conversations.search(query)
        conversations.list(query=query)

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(text=st.text("abc東京都が🦊é .-'\"\n", min_size=1, max_size=30), data=st.data())
    def test_every_word_of_a_text_is_found(self, conversations: Conversations, text: str, data: st.DataObject) -> None:
        words = [word for word in text.replace('"', " ").split() if any(c.isalnum() or c == "🦊" for c in word)]
        chat = conversations.create()
        message = conversations.add_message(chat.id, None, "user", text)
        for word in words:
            assert message.id in [hit.message_id for hit in conversations.search(word, limit=-1)]
        conversations.delete(chat.id)

    # A row of the index is its description (10), its totals (1), or a part of it (the others).
    @pytest.mark.parametrize("rows", ["id > 10", "id = 10", "id = 1", "1"])
    def test_damaged_index_is_made_anew(self, tmp_path: Path, rows: str) -> None:
        def damage() -> None:
            raw = sqlite3.connect(path)
            with raw:
                raw.execute(f"UPDATE messages_fts_data SET block = randomblob(length(block)) WHERE {rows}")  # noqa: S608
            raw.close()

        path = tmp_path / "octavo.db"
        with open_database(path) as database:
            chat = Conversations(database).create("Damage")
            for number in range(50):
                Conversations(database).add_message(chat.id, None, "user", f"word{number} and more")
        damage()
        with open_database(path) as database:
            assert len(Conversations(database).search("word7 ")) == 1
        damage()
        with open_database(path) as database:
            conversations = Conversations(database)
            for number in range(50, 100):
                conversations.add_message(chat.id, None, "user", f"word{number} and more")
            assert len(conversations.search("more", limit=-1)) == 100
            assert len(conversations.list(query="damage")) == 1
        damage()
        with open_database(path) as database:
            Conversations(database).delete(chat.id)
            assert Conversations(database).search("more") == []


class PlainTree:
    """What the tree should be, as a dictionary: the parent of each message, in the order they were added."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.texts: dict[str, str] = {}
        self.leaf: str | None = None

    def path(self, message: str | None) -> list[str]:
        path: list[str] = []
        while message is not None:
            path.insert(0, message)
            message = self.parents[message]
        return path

    def siblings(self, message: str) -> list[str]:
        return [other for other, parent in self.parents.items() if parent == self.parents[message]]

    def newest_below(self, message: str) -> str:
        return [other for other in self.parents if message in self.path(other)][-1]


class TreeMachine(RuleBasedStateMachine):
    """Two conversations in one database, each against its plain tree."""

    conversations: Conversations

    @initialize()
    def start(self) -> None:
        self.trees = {self.conversations.create().id: PlainTree() for _ in range(2)}

    @rule(data=st.data(), which=st.integers(0, 1), at_root=st.booleans(), text=st.text(max_size=5))
    def add(self, data: st.DataObject, which: int, at_root: bool, text: str) -> None:
        chat_id, tree = list(self.trees.items())[which]
        parent = None if at_root or not tree.parents else data.draw(st.sampled_from(list(tree.parents)))
        message = self.conversations.add_message(chat_id, parent, "user", text)
        tree.parents[message.id] = parent
        tree.texts[message.id] = message.text
        tree.leaf = message.id

    @rule(data=st.data(), which=st.integers(0, 1))
    def select(self, data: st.DataObject, which: int) -> None:
        tree = list(self.trees.values())[which]
        if tree.parents:
            chosen = data.draw(st.sampled_from(list(tree.parents)))
            tree.leaf = self.conversations.select_branch(chosen).id
            assert tree.leaf == tree.newest_below(chosen)
            assert self.conversations.siblings(chosen) == tree.siblings(chosen)

    @rule(data=st.data(), which=st.integers(0, 1), text=st.text(max_size=5))
    def change(self, data: st.DataObject, which: int, text: str) -> None:
        tree = list(self.trees.values())[which]
        if tree.parents:
            chosen = data.draw(st.sampled_from(list(tree.parents)))
            self.conversations.update_message(chosen, text=text, token_ids=[1], status="complete")
            tree.texts[chosen] = text

    @rule(which=st.integers(0, 1))
    def delete(self, which: int) -> None:
        chat_id = list(self.trees)[which]
        self.conversations.delete(chat_id)
        del self.trees[chat_id]
        self.trees[self.conversations.create().id] = PlainTree()

    @invariant()
    def trees_agree(self) -> None:
        for chat_id, tree in getattr(self, "trees", {}).items():
            path = self.conversations.path(chat_id)
            assert [message.id for message in path] == tree.path(tree.leaf)
            assert [message.text for message in path] == [tree.texts[message] for message in tree.path(tree.leaf)]
            assert [message.id for message in self.conversations.tree(chat_id)] == list(tree.parents)
            assert self.conversations.get(chat_id).num_messages == len(tree.parents)


def test_tree_agrees_with_a_plain_one(conversations: Conversations) -> None:
    class Machine(TreeMachine):
        pass

    Machine.conversations = conversations
    case = Machine.TestCase
    case.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
    case().runTest()
