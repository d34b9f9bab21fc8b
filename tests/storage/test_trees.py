"""Branches, long chains, and any tree at all against a plain one."""

from __future__ import annotations

import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octavo.storage.conversations import Conversation, Conversations
from octavo.storage.database import Database


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
