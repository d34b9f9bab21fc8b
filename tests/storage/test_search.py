"""Finding words in any script, whatever is typed, and in a damaged index too."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.storage.conversations import Conversation, Conversations
from octavo.storage.database import open_database


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
