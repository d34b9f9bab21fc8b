from typing import Any

import pytest

from octavo.app.needle.contexts import (
    NEEDLE_TASKS,
    TASKS,
    WORD_TASKS,
    even_depths,
    needle_context,
    prompt,
    word_context,
)
from octavo.app.needle.haystacks import HAYSTACKS
from octavo.app.needle.task import Context


def test_depths_are_the_middles_of_equal_parts() -> None:
    assert even_depths(1) == [0.5]
    assert even_depths(4) == [0.125, 0.375, 0.625, 0.875]
    assert even_depths(10)[0] == 0.05


def make(tokenizer: Any, task: str, haystack: str, tokens: int, seed: int = 0) -> Context:
    if task in WORD_TASKS:
        return word_context(tokenizer, task, tokens, seed)
    return needle_context(tokenizer, task, haystack, tokens, even_depths(5), seed)


@pytest.mark.parametrize("haystack", HAYSTACKS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("tokens", [3000, 4097])
def test_prompt_and_answer_together_are_exactly_as_long_as_asked_for(
    tokenizer: Any, task: str, haystack: str, tokens: int
) -> None:
    context = make(tokenizer, task, haystack, tokens)

    prompts = [prompt(tokenizer, context.ids, question) for question in context.questions]
    start = 0 if task == "single" else 1
    assert all(ids[start:][: len(context.ids)] == context.ids for ids in prompts), "one text for all questions"
    lengths = [len(ids) + question.answer_tokens for ids, question in zip(prompts, context.questions, strict=True)]
    assert max(lengths) == tokens
    for ids, question in zip(prompts, context.questions, strict=True):
        between = " " if task == "single" else "<assistant>"
        assert tokenizer.decode(ids).endswith(f"{question.text}{between}{question.opening}")


@pytest.mark.parametrize("haystack", HAYSTACKS)
@pytest.mark.parametrize("task", ["single", "multi-key", "multi-value"])
def test_every_value_is_where_it_was_to_be(tokenizer: Any, task: str, haystack: str) -> None:
    context = make(tokenizer, task, haystack, 8000)

    text = tokenizer.decode(context.ids)
    for question in context.questions:
        places = [text.index(value) / len(text) for value in question.expected]
        assert places[0] == pytest.approx(question.depth, abs=0.03)
        for value in question.expected:
            assert text.count(value) == 1


@pytest.mark.parametrize("task", TASKS)
def test_texts_are_the_same_for_a_seed_and_others_for_another(tokenizer: Any, task: str) -> None:
    assert make(tokenizer, task, "prose", 3000, 1).ids == make(tokenizer, task, "prose", 3000, 1).ids
    assert make(tokenizer, task, "prose", 3000, 1).ids != make(tokenizer, task, "prose", 3000, 2).ids


def test_every_task_is_of_one_kind() -> None:
    assert sorted(TASKS) == sorted({*NEEDLE_TASKS, *WORD_TASKS})
