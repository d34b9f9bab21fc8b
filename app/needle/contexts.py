"""From a task's name to a prompt of an exact length: intro, text, question and answer together take `tokens`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from octavo.app.errors import AppError
from octavo.app.needle import needle_tasks, word_tasks
from octavo.app.needle.filling import fill
from octavo.app.needle.haystacks import HAYSTACKS
from octavo.app.needle.task import Context, Question

if TYPE_CHECKING:
    from octavo.engine.tokenizer import Tokenizer

NEEDLE_TASKS = {
    "single": (needle_tasks.FACTS_INTRO, needle_tasks.single),
    "multi-key": (needle_tasks.NUMBERS_INTRO, needle_tasks.multi_key),
    "multi-value": (needle_tasks.NUMBERS_INTRO, needle_tasks.multi_value),
    "variables": (needle_tasks.VARIABLES_INTRO, needle_tasks.variables),
}
WORD_TASKS = {
    "common-words": (word_tasks.COMMON_INTRO, word_tasks.common_words),
    "frequent-words": (word_tasks.FREQUENT_INTRO, word_tasks.frequent_words),
}
TASKS = (*NEEDLE_TASKS, *WORD_TASKS)
MOST_DEPTHS = 100


def even_depths(count: int) -> list[float]:
    """The middles of `count` equal parts, so that none is at the very beginning or end: 0.5; 0.25, 0.75; ..."""
    return [round((2 * i + 1) / (2 * count), 4) for i in range(count)]


def needle_context(
    tokenizer: Tokenizer, task: str, haystack: str, tokens: int, depths: Sequence[float], seed: int
) -> Context:
    """A task of NEEDLE_TASKS: the longest of its prompts and the answer to it are exactly `tokens` long.

    Raises AppError where the needles do not fit.
    """
    intro, hide = NEEDLE_TASKS[task]
    random = Random(f"{task} {haystack} {seed}")  # noqa: S311
    needles, questions = hide(random, depths)
    start = tokenizer.encode(intro)
    room = tokens - max(overhead(tokenizer, question) for question in questions)
    ids = fill(tokenizer.encode, HAYSTACKS[haystack], needles, room - len(start), random)
    return Context(start + ids, questions)


def word_context(tokenizer: Tokenizer, task: str, tokens: int, seed: int) -> Context:
    """A task of WORD_TASKS, its prompt and answer exactly `tokens` long. Raises AppError for too few of them."""
    intro, write = WORD_TASKS[task]
    start = tokenizer.encode(intro)

    def text(num_tokens: int) -> tuple[list[int], Question]:
        return write(tokenizer.encode, num_tokens, Random(f"{task} {seed}"))  # noqa: S311

    around = overhead(tokenizer, text(tokens)[1])  # the same for every length
    ids, question = text(tokens - around - len(start))
    return Context(start + ids, [question])


def prompt(tokenizer: Tokenizer, ids: Sequence[int], question: Question) -> list[int]:
    """The ids of text, question and the answer's beginning: as a conversation, or as plain text to be gone on with."""
    from octavo.engine.tokenizer import Message

    if not question.in_chat:
        return [*ids, *tokenizer.encode(f"{question.text} {question.opening}")]
    content = (*ids, *tokenizer.encode(question.text))
    message = Message("user", tokenizer.decode(content), content)
    return tokenizer.encode_chat([message]) + tokenizer.encode(question.opening)


def overhead(tokenizer: Tokenizer, question: Question) -> int:
    """Tokens that a question takes beside the text: those of itself, the chat format and the answer."""
    return len(prompt(tokenizer, [], question)) + question.answer_tokens


def check_length(num_prompt: int, question: Question, tokens: int) -> None:
    """Raise AppError for a chat template that changes the text it is given, so that the prompt is too long."""
    if num_prompt + question.answer_tokens > tokens:
        raise AppError("This model's chat template changes the text it is given; the bench cannot fill it exactly.")
