"""The stored conversations as a command needs them: opened for reading or writing, and found by what was typed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.storage.conversations import Conversation, Conversations

LAST = "last"
SHORT_ID = 12  # characters of an id: its whole time, and enough of the rest to tell two of one moment apart


@contextlib.contextmanager
def open_conversations(*, write: bool) -> Iterator[Conversations]:
    """The conversations of this user. Raises StorageError, DatabaseBusyError and DatabaseMissingError among them."""
    from octavo.storage.conversations import Conversations
    from octavo.storage.database import open_database
    from octavo.storage.paths import Paths

    with open_database(Paths.from_environment().database_file, write=write) as database:
        conversations = Conversations(database)
        if write:
            conversations.mark_interrupted()  # nobody else writes, so nothing can be streaming now
        yield conversations


def find_conversation(conversations: Conversations, given: str) -> Conversation:
    """The conversation with this id, or beginning of an id, or the newest one for "last".

    Raises AppError or StorageError if there is none.
    """
    if given != LAST:
        return conversations.resolve(given)
    newest = conversations.list(limit=1)
    if not newest:
        raise AppError("There is no conversation yet; `octavo ask --conversation new` or `octavo` begins one.")
    return newest[0]
