"""`octavo ask --conversation`: the question and its answer become part of a stored conversation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from octavo.app.cli.explaining import tell_budgets, tell_news, tell_reading, tell_recalled
from octavo.app.cli.progress import announce
from octavo.app.cli.stored import SHORT_ID, find_conversation, open_conversations
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Answer
    from octavo.app.assistant.chat import Chat
    from octavo.app.memory.service import ChatMemory
    from octavo.app.settings import Settings
    from octavo.storage.conversations import Conversation, Conversations, StoredMessage

NEW = "new"
_PATIENCE_S = 60.0  # for what is read after the answer; the rest is read at the next start
Pieces = Iterator["str | tuple[Answer | None, StoredMessage]"]


def attach(given: str, docs: Sequence[str], mode: str | None, embedder: str | None, settings: Settings) -> str:
    """Open documents in the conversation `given`, which "new" makes; returns its id.

    Raises AppError for a document that cannot be asked about, StorageError, and the engine's errors.
    """
    from octavo.app.cli.asking import document_of, opened_library
    from octavo.app.cli.embedding import embed, opened_embedder
    from octavo.storage.attachments import Attachments

    with opened_library() as documents, open_conversations(write=True) as conversations:
        opened = [document_of(documents, item) for item in docs]
        chosen = opened_embedder(documents, embedder, offline=settings.offline, configured=settings.embedder)
        if documents.is_writable:
            embed(documents, chosen)
        conversation = conversations.create() if given == NEW else find_conversation(conversations, given)
        attachments = Attachments(conversations.database)
        attachments.attach(conversation.id, [document.path for document in opened])
        if mode is not None:
            attachments.set_mode(conversation.id, mode)  # type: ignore[arg-type]
    if given == NEW:
        short = conversation.id[:SHORT_ID]
        announce(f"This is conversation {short}; go on with `octavo ask --conversation {short}`.")
    return conversation.id


@contextlib.contextmanager
def opened_turn(
    given: str, settings: Settings, *, explain: bool = False
) -> Iterator[Callable[[str, Callable[[], bool]], Pieces]]:
    """What asks a question in the conversation `given`: "new", "last" or an id. The model is loaded here.

    Called with the question and what says that it is cancelled, it yields text as it comes, then the answer with the
    message it was saved as; with `explain`, stderr is told of memory and of what was read. Raises the errors of
    `open_assistant`, StorageError, and AppError where the engine refuses the question.
    """
    from octavo.app.assistant.chat import Chat
    from octavo.app.cli.opening import open_assistant
    from octavo.app.documents.shelf import Shelf
    from octavo.app.memory.service import ChatMemory
    from octavo.storage.attachments import Attachments
    from octavo.storage.paths import Paths

    with open_conversations(write=True) as conversations:
        found = None if given == NEW else find_conversation(conversations, given)
        assistant, name = open_assistant(settings)
        with contextlib.closing(assistant):
            if explain:
                tell_budgets(assistant)
            memory = ChatMemory(
                conversations.database, conversations, Paths.from_environment(), settings.memory, tell_news
            )
            with contextlib.closing(memory):
                shelf = Shelf(Paths.from_environment(), settings, Attachments(conversations.database))
                with contextlib.closing(shelf):
                    chat = Chat(assistant, conversations, settings, name, memory, shelf)
                    yield partial(_ask, chat, conversations, memory, found, explain)


def _ask(
    chat: Chat,
    conversations: Conversations,
    memory: ChatMemory,
    found: Conversation | None,
    explain: bool,
    question: str,
    is_cancelled: Callable[[], bool],
) -> Pieces:
    from octavo.app.assistant.chat import AnswerDone, AnswerStarted, AnswerText
    from octavo.app.assistant.document_turn import RECORD
    from octavo.app.cli.asking import answer_lines
    from octavo.app.cli.asking import explain as explain_documents
    from octavo.storage.attachments import Attachments

    conversation = found or conversations.create()
    from_documents, is_open = bool(Attachments(conversations.database).of(conversation.id).paths), False
    for event in chat.turn(conversation.id, question, is_cancelled=is_cancelled):
        if isinstance(event, AnswerStarted) and event.left_out:
            tokens = sum(item.tokens for item in event.left_out)
            announce(
                f"{len(event.left_out)} earlier messages ({tokens:,} tokens) are not in the prompt, which has "
                f"{event.prompt_tokens:,} tokens of the context of {event.context:,}."
            )
        elif isinstance(event, AnswerText):
            if not from_documents:  # their text is shown when it is checked
                yield event.text
                is_open = not event.text.endswith("\n")
        elif isinstance(event, AnswerDone):
            if is_open:
                yield "\n"  # what is announced next begins on a line of its own
            record = event.message.record.get(RECORD)
            if record is not None:
                yield "\n".join([*answer_lines(event.message.text, record), ""])
                for note in record["notes"]:
                    announce(note)
                if explain:
                    explain_documents(record)
            if event.answer is None and record is not None:
                yield None, event.message
                continue
            if event.answer is None:
                raise AppError(str(event.message.record["error"]))
            yield event.answer, event.message
            tell_reading(chat.assistant, event.answer, explain=explain)
            if explain:
                tell_recalled(memory, event.message)
    memory.wait(_PATIENCE_S)
    if found is None:
        short = conversation.id[:SHORT_ID]
        announce(f"This is conversation {short}; go on with `octavo ask --conversation {short}`.")
