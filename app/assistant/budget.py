"""What fits into the context: the system prompt, the question, and as many of the last turns as there is room for.

Counted on the final templated ids. Over budget the oldest whole turns leave, down to a low-water mark: every cut
changes the prefix of the prompt, so the pages after the system prompt cannot be reused and everything that stays is
computed anew. Cutting to a mark makes that rare; the cut then stays where it is until the budget is exceeded again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.engine.tokenizer import Message

LOW_WATER = 0.6  # share of the room for history that is filled after a cut
_MARGIN = 16
_LARGEST_RESERVE = 4  # the answer is promised at most this part of the context: one fourth


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of a context: `reserve` is kept for the answer, `margin` for nothing."""

    context: int
    reserve: int
    margin: int = _MARGIN

    @classmethod
    def of(cls, context: int, max_tokens: int) -> Budget:
        """The budget of a context for answers of up to `max_tokens`; long answers get what is left over."""
        return cls(context, min(max_tokens, max(context // _LARGEST_RESERVE, 1)))

    @property
    def available(self) -> int:
        """Tokens the prompt may have."""
        return self.context - self.reserve - self.margin


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer as the model reads them; there may be no answer."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A message the model does not see, the tokens of its text, and why."""

    message_id: str
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt within its budget; the first `num_left` of the turns are not in it."""

    prompt_ids: list[int]
    num_left: int


def fit(
    system: Sequence[Message], turns: Sequence[Turn], budget: Budget, encode: Callable[[list[Message]], list[int]]
) -> Fitted:
    """The prompt for the question that is the last of `turns`; `encode` gives the final ids of a conversation.

    The system prompt and the question never leave. Raises ContextTooLongError, with the numbers, when these two
    alone are over budget.
    """
    prompt_ids = encode(conversation(system, turns))
    if len(prompt_ids) <= budget.available:
        return Fitted(prompt_ids, 0)
    least = encode(conversation(system, turns[-1:]))
    if len(least) > budget.available:
        raise _too_long(len(least), len(least) - len(encode(conversation((), turns[-1:]))), budget)
    mark = len(least) + LOW_WATER * (budget.available - len(least))
    low, high, best = 1, len(turns) - 1, least
    while low < high:
        middle = (low + high) // 2
        tried = encode(conversation(system, turns[middle:]))
        if len(tried) <= mark:
            high, best = middle, tried
        else:
            low = middle + 1
    return Fitted(best, high)


def conversation(system: Sequence[Message], turns: Sequence[Turn]) -> list[Message]:
    """The messages in order; a question that was never answered is joined with the next one.

    Many templates refuse two messages of one role in a row.
    """
    messages = list(system)
    for message in (message for turn in turns for message in turn.messages):
        last = messages[-1] if messages else None
        if last is not None and last.role == message.role:
            messages[-1] = replace(last, content=f"{last.content}\n\n{message.content}", token_ids=None)
        else:
            messages.append(message)
    return messages


def _too_long(num_prompt: int, num_system: int, budget: Budget) -> Exception:
    from octavo.engine.errors import ContextTooLongError

    system = f" ({num_system:,} of them the system prompt)" if num_system > 0 else ""
    return ContextTooLongError(
        f"The message is too long: it makes a prompt of {num_prompt:,} tokens{system}, and of the context of "
        f"{budget.context:,} there are {budget.available:,} for it ({budget.reserve:,} are kept for the answer, "
        f"{budget.margin:,} as a margin); shorten it by {num_prompt - budget.available:,} tokens, or choose a model "
        "or budgets (vram, ram, disk) that hold a larger context."
    )
