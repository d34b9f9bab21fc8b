"""The full-text index of messages and titles: the statements that fill, empty, mend and ask it.

It holds its own copy of each text, in the form `fulltext.indexed` gives. Nothing in it is needed to make it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.storage.fulltext import MATCH_END, MATCH_START, indexed, match_expression, readable
from octavo.storage.records import SearchHit

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

# A condition on rows of `conversations`, with two parameters, both the expression to match.
HOLDING_WORDS = """(
    seq IN (SELECT rowid FROM titles_fts WHERE titles_fts MATCH ?) OR id IN (
        SELECT conversation_id FROM messages WHERE seq IN (SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?)
    ))"""

_TABLES = ("messages_fts", "titles_fts")
_SNIPPET_WORDS = 24
_SEARCH = """
    SELECT conversations.id, conversations.title, messages.id, snippet(messages_fts, 0, ?, ?, '…', ?)
    FROM messages_fts
    JOIN messages ON messages.seq = messages_fts.rowid
    JOIN conversations ON conversations.id = messages.conversation_id
    WHERE messages_fts MATCH ? ORDER BY rank LIMIT ?
    """


def put_message(connection: Connection, seq: int, text: str) -> None:
    """Index the text of a message, in place of what was indexed of it."""
    connection.execute("DELETE FROM messages_fts WHERE rowid = ?", [seq])
    connection.execute("INSERT INTO messages_fts (rowid, text) VALUES (?, ?)", [seq, indexed(text)])


def put_title(connection: Connection, seq: int, title: str) -> None:
    """Index the title of a conversation, in place of the one it had."""
    connection.execute("DELETE FROM titles_fts WHERE rowid = ?", [seq])
    connection.execute("INSERT INTO titles_fts (rowid, text) VALUES (?, ?)", [seq, indexed(title)])


def forget(connection: Connection, seq: int, conversation_id: str) -> None:
    """Take a conversation and its messages, which must still be there, out of the index.

    Merging drops what was deleted; until then it would stay in the file, only marked as deleted.
    """
    connection.execute(
        "DELETE FROM messages_fts WHERE rowid IN (SELECT seq FROM messages WHERE conversation_id = ?)",
        [conversation_id],
    )
    connection.execute("DELETE FROM titles_fts WHERE rowid = ?", [seq])
    connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('optimize')")
    connection.execute("INSERT INTO titles_fts (titles_fts) VALUES ('optimize')")


def create(connection: Connection) -> None:
    """Make the tables of the index, empty."""
    for table in _TABLES:
        # The categories add symbols to letters and numbers, so that an emoji can be found.
        connection.execute(
            f"CREATE VIRTUAL TABLE {table} USING fts5("
            "text, tokenize = \"unicode61 remove_diacritics 2 categories 'L* N* Co So'\")"
        )


def rebuild(connection: Connection) -> None:
    """Make the index anew from the messages that are complete, and the titles; works however damaged it is."""
    # SQLite refuses even to drop a table whose description is damaged, so each gets that of a new one first.
    connection.execute("CREATE VIRTUAL TABLE pristine_fts USING fts5(text)")
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table}_data")  # noqa: S608
        connection.execute(f"INSERT INTO {table}_data SELECT * FROM pristine_fts_data")  # noqa: S608
        connection.execute(f"DROP TABLE {table}")
    connection.execute("DROP TABLE pristine_fts")
    create(connection)
    for seq, text in connection.execute("SELECT seq, text FROM messages WHERE status <> 'streaming'"):
        put_message(connection, seq, text)
    for seq, title in connection.execute("SELECT seq, title FROM conversations"):
        put_title(connection, seq, title)


def search(connection: Connection, query: str, limit: int) -> list[SearchHit]:
    """Up to `limit` messages that hold every word of `query`, the best match (BM25) first."""
    expression = match_expression(query)
    if not expression:
        return []
    rows = connection.execute(_SEARCH, [MATCH_START, MATCH_END, _SNIPPET_WORDS, expression, limit]).fetchall()
    return [SearchHit(key, title, message_id, readable(snippet)) for key, title, message_id, snippet in rows]
