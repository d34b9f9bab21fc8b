"""The full-text index of messages and titles: the statements that fill, empty, mend and ask it.

It holds its own copy of each text, in the form `fulltext.indexed` gives, so it can be rebuilt from itself.
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


def rebuild(connection: Connection) -> None:
    """Make the index anew from the texts it covers."""
    connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    connection.execute("INSERT INTO titles_fts (titles_fts) VALUES ('rebuild')")


def search(connection: Connection, query: str, limit: int) -> list[SearchHit]:
    """Up to `limit` messages that hold every word of `query`, the best match (BM25) first."""
    expression = match_expression(query)
    if not expression:
        return []
    rows = connection.execute(_SEARCH, [MATCH_START, MATCH_END, _SNIPPET_WORDS, expression, limit]).fetchall()
    return [SearchHit(key, title, message_id, readable(snippet)) for key, title, message_id, snippet in rows]
