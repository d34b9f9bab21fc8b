"""A turn of a stored conversation: the question is saved, the prompt fitted, the answer streamed and kept.

Whatever ends an answer, what came of it is in the database: its end, Ctrl+C, an error, a crash of the engine, a
consumer that walks away; and after a kill everything up to the last flush.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from octavo.app.assistant import history
from octavo.app.assistant.assistant import Answer
from octavo.app.assistant.document_turn import RECORD, UNCHECKED, DocumentTurns
from octavo.app.assistant.draft import Draft
from octavo.app.assistant.prompt import Prompt, Prompter
from octavo.app.documents.answer import DocumentAnswer, Prepared, Retrying
from octavo.engine.errors import ContextTooLongError, EngineError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.assistant.budget import LeftOut
    from octavo.app.assistant.document_turn import DocumentQuestion
    from octavo.app.documents.shelf import Shelf
    from octavo.app.memory.service import ChatMemory
    from octavo.app.settings import Settings
    from octavo.engine.tokenizer import Tokenizer
    from octavo.storage.conversations import Conversations, Status, StoredMessage

LEAF = "leaf"
_TITLE_LENGTH = 60
_STATUS: Mapping[str, Status] = {"stop": "complete", "length": "complete", "cancelled": "cancelled", "error": "error"}


@dataclass(frozen=True, slots=True)
class UserSaved:
    """The question is in the database; the engine knows nothing of it yet."""

    message: StoredMessage


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The prompt is fitted and its row is there: `prompt_tokens` of `context`, without the messages `left_out`."""

    message: StoredMessage
    left_out: tuple[LeftOut, ...]
    prompt_tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class AnswerText:
    """New text of the answer, of which `num_tokens` tokens were generated so far."""

    message_id: str
    text: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class AnswerRetrying:
    """Another try is made at an answer from documents, unseen; `why` says it in a few words."""

    message_id: str
    why: str


@dataclass(frozen=True, slots=True)
class AnswerDone:
    """The answer as it was saved; after an error its record holds the sentence under "error".

    `answer` is None where the engine did not get as far as one.
    """

    message: StoredMessage
    answer: Answer | None


ChatEvent = UserSaved | AnswerStarted | AnswerText | AnswerRetrying | AnswerDone
ChatEvents = Generator[ChatEvent, None, None]


def save_question(
    conversations: Conversations,
    conversation_id: str,
    text: str,
    parent_id: str | None = LEAF,
    system: str | None = None,
) -> StoredMessage:
    """Save a question below `parent_id`: "leaf" is where the conversation stands, None makes another beginning.

    An untitled conversation is named after its first line. `system` is the system prompt of a conversation that
    begins here. Raises StorageError.
    """
    conversation = conversations.get(conversation_id)
    parent = conversation.leaf_id if parent_id == LEAF else parent_id
    record = {history.SYSTEM: system} if system is not None and parent is None else None
    message = conversations.add_message(conversation.id, parent, "user", text, record=record)
    if not conversation.title:
        conversations.rename(conversation.id, title_of(text))
    return message


def save_edit(conversations: Conversations, message_id: str, text: str) -> StoredMessage:
    """Save another wording of a question as a branch beside it. Raises StorageError."""
    question = question_of(conversations, message_id)
    system = question.record.get(history.SYSTEM)
    return save_question(conversations, question.conversation_id, text, question.parent_id, system)


def question_of(conversations: Conversations, message_id: str) -> StoredMessage:
    """The question that a message is, or answers. Raises StorageError."""
    message = conversations.message(message_id)
    while message.role != "user" and message.parent_id is not None:
        message = conversations.message(message.parent_id)
    return message


def title_of(text: str) -> str:
    """The first line with words, without control characters, cut to a title's length."""
    lines = (line for line in text.splitlines() if any(map(str.isalnum, line)))
    line = next(lines, text.strip().partition("\n")[0])
    visible = "".join(character if character.isprintable() else " " for character in line)
    title = " ".join(visible.split())
    return title if len(title) <= _TITLE_LENGTH else title[: _TITLE_LENGTH - 1].rstrip() + "…"


class Chat:
    """Conversations answered by one model; used from the thread that owns the engine.

    `memory` gives way while an answer is written, and reads the person's messages after it. Where documents of the
    `shelf` are open, answers come from them.
    """

    def __init__(
        self,
        assistant: Assistant,
        conversations: Conversations,
        settings: Settings,
        model: str,
        memory: ChatMemory | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self.assistant = assistant
        self.model = model
        self._conversations = conversations
        self._settings = settings
        self._memory = memory
        self._documents = DocumentTurns(assistant, shelf, settings) if shelf is not None else None
        self._prompter = Prompter(assistant, settings, memory)

    def turn(
        self,
        conversation_id: str,
        text: str,
        *,
        parent_id: str | None = LEAF,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> ChatEvents:
        """Save a question, then answer it. Raises StorageError; for other errors see `answer`."""
        question = save_question(self._conversations, conversation_id, text, parent_id)
        yield UserSaved(question)
        yield from self.answer(question, is_cancelled=is_cancelled)

    def edit(self, message_id: str, text: str, *, is_cancelled: Callable[[], bool] = lambda: False) -> ChatEvents:
        """Ask a question in other words, as a branch beside it. Errors as `turn`."""
        question = save_edit(self._conversations, message_id, text)
        yield UserSaved(question)
        yield from self.answer(question, is_cancelled=is_cancelled)

    def regenerate(self, message_id: str, *, is_cancelled: Callable[[], bool] = lambda: False) -> ChatEvents:
        """Answer a question once more, as a branch beside its answers; `message_id` is the question or an answer."""
        yield from self.answer(question_of(self._conversations, message_id), is_cancelled=is_cancelled)

    def answer(self, question: StoredMessage, *, is_cancelled: Callable[[], bool] = lambda: False) -> ChatEvents:
        """Answer a saved question. `is_cancelled` is asked once a step.

        What the engine refuses, a question that is too long above all, ends with an AnswerDone that says so. Any
        other exception is raised after the answer so far was saved.
        """
        quiet = nullcontext() if self._memory is None else self._memory.giving_way(question.conversation_id)
        with quiet:
            yield from self._answer(question, is_cancelled)

    def prompt_ids(self, conversation_id: str, message_id: str | None = None) -> list[int]:
        """The prompt of an answer, by default the last one of a conversation's path, as it would be made now.

        Raises StorageError and EngineError.
        """
        path = self._conversations.path(conversation_id, message_id)
        last = next((place for place in range(len(path), 0, -1) if path[place - 1].role == "user"), 0)
        return self._prompter.prompt(path[:last], recalls=False).ids if last else []

    def _answer(self, question: StoredMessage, is_cancelled: Callable[[], bool]) -> ChatEvents:
        path = self._conversations.path(question.conversation_id, question.id)
        asked = self._documents.question(path) if self._documents is not None else None
        if asked is not None:
            draft = Draft(self._conversations, self._add_answer(question, "streaming", {UNCHECKED: True}))
            yield from self._kept(draft, self._from_documents(draft, asked, path, is_cancelled))
            return
        try:
            prompt = self._prompter.prompt(path)
        except EngineError as error:
            refused = isinstance(error, ContextTooLongError)
            record = {"finish_reason": "error", "error": str(error), "refused": refused}
            yield AnswerDone(self._add_answer(question, "error", record), None)
            return
        draft = Draft(self._conversations, self._add_answer(question, "streaming", prompt.record))
        yield from self._kept(draft, self._stream(draft, prompt, is_cancelled))

    def _kept(self, draft: Draft, events: ChatEvents) -> ChatEvents:
        """The events of an answer, whose draft is saved whatever ends them."""
        try:
            yield from events
        except EngineError as error:
            record: dict[str, Any] = {"finish_reason": "error", "error": str(error)}
            if isinstance(error, ContextTooLongError):
                record["refused"] = True
            yield AnswerDone(draft.finish("error", record), None)
        except Exception as error:
            record = {"finish_reason": "error", "error": f"{type(error).__name__}: {error}"}
            yield AnswerDone(draft.finish("error", record), None)
            raise
        except BaseException:  # the consumer has left, or the process is ending
            draft.finish("cancelled", {"finish_reason": "cancelled"})
            raise

    def _stream(self, draft: Draft, prompt: Prompt, is_cancelled: Callable[[], bool]) -> ChatEvents:
        yield AnswerStarted(draft.message, prompt.left_out, len(prompt.ids), prompt.context)
        policy = self._settings.generation.policy()
        owner, budgets = draft.message.conversation_id, self.assistant.budgets
        place = {"device": budgets.device} if budgets is not None else {}
        answer = self.assistant.answer_prompt(prompt.ids, policy, owner=owner, is_cancelled=is_cancelled)
        # Closed here and now, whoever still holds the events: that is what frees the engine.
        with closing(answer) as events:
            for event in events:
                if isinstance(event, Answer):
                    draft.text, draft.token_ids = event.text, _spelling(event, self.assistant.tokenizer)
                    yield AnswerDone(draft.finish(_STATUS[event.finish_reason], event.record() | place), event)
                else:
                    draft.add(event)
                    yield AnswerText(draft.message.id, event.text, len(draft.token_ids))

    def _from_documents(
        self, draft: Draft, asked: DocumentQuestion, path: Sequence[StoredMessage], is_cancelled: Callable[[], bool]
    ) -> ChatEvents:
        """Text as it comes, then the answer as it was checked."""
        with closing(asked.events(is_cancelled)) as events:
            for event in events:
                if isinstance(event, Prepared):
                    draft.note(asked.record(path, event))
                    yield AnswerStarted(draft.message, asked.left_out(event), event.prompt_tokens, asked.context)
                elif isinstance(event, DocumentAnswer):
                    draft.text, draft.token_ids = event.text, []
                    ended = event.answer.finish_reason if event.answer is not None else "stop"
                    record = event.answer.record() if event.answer is not None else {"finish_reason": "stop"}
                    done = draft.finish(_STATUS[ended], record | {RECORD: event.record(), UNCHECKED: False})
                    yield AnswerDone(done, event.answer)
                elif isinstance(event, Retrying):
                    yield AnswerRetrying(draft.message.id, event.why)
                else:
                    draft.add(event)
                    yield AnswerText(draft.message.id, event.text, len(draft.token_ids))

    def _add_answer(self, question: StoredMessage, status: Status, record: Mapping[str, Any]) -> StoredMessage:
        return self._conversations.add_message(
            question.conversation_id, question.id, "assistant", "", status=status, model=self.model, record=record
        )


def _spelling(answer: Answer, tokenizer: Tokenizer) -> list[int]:
    """The ids that spell the answer's text: without those of a stop string, and none if it ended inside a token."""
    ids = list(answer.token_ids)
    while ids and len(tokenizer.decode(ids)) > len(answer.text):
        ids.pop()
    return ids if tokenizer.decode(ids) == answer.text else []
