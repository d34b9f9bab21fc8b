"""The prompt for a question: system prompt, what left the window in short, and the last turns with their memories.

What is remembered and what is summed up count as what they are: tokens of the question they stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from octavo.app.assistant import history
from octavo.app.assistant.budget import Budget, Fitted, LeftOut, Turn, conversation, fit
from octavo.app.memory.injection import memory_budget
from octavo.app.memory.recall import RECORD
from octavo.engine.errors import ContextTooLongError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.assistant.history import StoredTurn
    from octavo.app.memory.service import ChatMemory
    from octavo.app.settings import Settings
    from octavo.engine.tokenizer import Message
    from octavo.storage.conversations import StoredMessage

_SMALLEST_SUMMARY = 32  # tokens; below that there is nothing to say


@dataclass(frozen=True, slots=True)
class Prompt:
    """A fitted prompt and what its answer's record says about it."""

    ids: list[int]
    context: int
    left_out: tuple[LeftOut, ...]
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Summary:
    """What `messages` that left the window come to, made with a budget of so many tokens."""

    text: str = ""
    messages: int = 0
    budget: int = 0


class Prompter:
    """Makes prompts for one model. Without `memory` nothing is recalled, and what left the window is not summed up."""

    def __init__(self, assistant: Assistant, settings: Settings, memory: ChatMemory | None = None) -> None:
        self._assistant = assistant
        self._settings = settings
        self._memory = memory
        self._num_tokens: dict[str, int] = {}

    def prompt(self, path: Sequence[StoredMessage], *, recalls: bool = True) -> Prompt:
        """The prompt for the question `path` ends with; `recalls` False only shows it, and writes nothing down.

        Raises ContextTooLongError, or what the template raises.
        """
        from octavo.engine.tokenizer import Message

        budget = Budget.of(self._assistant.engine.max_context, self._settings.generation.max_tokens)
        instructions = history.system_of(path, self._settings.system)
        system = [Message("system", instructions)] if instructions else []
        if recalls:
            path = [*path[:-1], self._with_memories(path[-1], system, budget)]
        turns = history.turns_of(path)
        sent = [turn for turn in turns[history.first_kept(turns, budget) :] if not turn.refused]
        fitted, summary = self._fit(system, turns, sent, budget)
        kept = {id(turn) for turn in sent[fitted.num_left :]}
        left_out = tuple(
            LeftOut(message.id, self._count(message), history.REFUSED if turn.refused else history.CONTEXT_FULL)
            for turn in turns
            if id(turn) not in kept
            for message in turn.messages
        )
        kept_from = sent[fitted.num_left].messages[0].id
        record: dict[str, Any] = {
            "window": history.window_record(budget, len(fitted.prompt_ids), kept_from),
            "left_out": history.left_out_record(path, left_out),
        }
        if RECORD in path[-1].record:
            record[RECORD] = path[-1].record[RECORD]
        if summary.budget:
            tokens = self._tokens(summary.text) if summary.text else 0
            record[history.SUMMARY] = {"messages": summary.messages, "tokens": tokens, "budget": summary.budget}
        return Prompt(fitted.prompt_ids, budget.context, left_out, record)

    def _with_memories(self, question: StoredMessage, system: Sequence[Message], budget: Budget) -> StoredMessage:
        """The question with what is recalled for it in its record, as far as there is room beside it."""
        from octavo.engine.tokenizer import Message

        if self._memory is None:
            return question
        alone = Turn((Message("user", question.text),))
        least = len(self._assistant.tokenizer.encode_chat(conversation(system, [alone])))
        room = min(memory_budget(budget.context), budget.available - least)
        return self._memory.recall(question, room, self._tokens) if room > 0 else question

    def _fit(
        self, system: Sequence[Message], turns: Sequence[StoredTurn], sent: Sequence[StoredTurn], budget: Budget
    ) -> tuple[Fitted, _Summary]:
        """The prompt, and the summary in it of what is not in it.

        The summary is made with the budget it had in the last prompt, so that it stays the same, token for token, until
        the window is cut again.
        """
        encode = self._assistant.tokenizer.encode_chat
        read = [self._as_read(turn) for turn in sent]
        summary = self._summary(turns, sent[0], history.summary_budget(turns, memory_budget(budget.context)))
        try:
            fitted = fit(system, _led(read, summary.text), budget, encode)
        except ContextTooLongError:
            if not summary.text:
                raise
            fitted, summary = fit(system, read, budget, encode), _Summary(messages=summary.messages)
        if not fitted.num_left:
            return fitted, summary
        room = min(memory_budget(budget.context), budget.available - len(fitted.prompt_ids))
        summary = self._summary(turns, sent[fitted.num_left], room)
        prompt_ids = encode(conversation(system, _led(read[fitted.num_left :], summary.text)))
        if len(prompt_ids) > budget.available:  # a template may cost more than the sum of its parts
            return fitted, _Summary(messages=summary.messages)
        return Fitted(prompt_ids, fitted.num_left), summary

    def _summary(self, turns: Sequence[StoredTurn], first: StoredTurn, budget: int) -> _Summary:
        """What the turns before `first` come to; refused ones were never part of the conversation."""
        before = turns[: next(place for place, turn in enumerate(turns) if turn is first)]
        left = [message for turn in before if not turn.refused for message in turn.messages]
        if self._memory is None or not left or budget < _SMALLEST_SUMMARY:
            return _Summary()
        text = self._memory.earlier(left[0].conversation_id, left, budget, self._tokens)
        return _Summary(text, len(left), budget)

    def _as_read(self, turn: StoredTurn) -> Turn:
        return turn.as_read(self._assistant.tokenizer, self._memory.as_read if self._memory is not None else None)

    def _tokens(self, text: str) -> int:
        return len(self._assistant.tokenizer.encode(text))

    def _count(self, message: StoredMessage) -> int:
        """Tokens of a message's text, remembered: what has left once is counted for every later answer."""
        if message.id not in self._num_tokens:
            self._num_tokens[message.id] = self._tokens(message.text)
        return self._num_tokens[message.id]


def _led(turns: Sequence[Turn], summary: str) -> list[Turn]:
    """The turns with the summary in front of the first question's words."""
    if not summary:
        return list(turns)
    first, *rest = turns
    question, *others = first.messages
    led = replace(question, content=f"{summary}\n\n{question.content}", token_ids=None)
    return [Turn((led, *others)), *rest]
