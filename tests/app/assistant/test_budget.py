"""Which turns leave a prompt that is too long, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app.assistant.budget import LOW_WATER, Budget, Turn, conversation, fit
from octavo.engine.errors import ContextTooLongError
from octavo.engine.tokenizer import Message

SYSTEM = [Message("system", "s" * 5)]


def encode(messages: list[Message]) -> list[int]:
    """One token a character, and three for what a template writes around a message."""
    return [ord(character) for message in messages for character in f"<{message.content}|>"]


def turns(*sizes: int) -> list[Turn]:
    answered = [Turn((Message("user", "q" * size), Message("assistant", "a" * size))) for size in sizes[:-1]]
    return [*answered, Turn((Message("user", "q" * sizes[-1]),))]


def test_what_fits_is_left_as_it_is() -> None:
    asked = turns(10, 20, 30)
    fitted = fit(SYSTEM, asked, Budget(200, 20, 4), encode)
    assert fitted.num_left == 0
    assert fitted.prompt_ids == encode(conversation(SYSTEM, asked))


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=30),
    context=st.integers(150, 1000),
    reserve=st.integers(1, 50),
)
def test_oldest_whole_turns_leave_down_to_the_low_water_mark(sizes: list[int], context: int, reserve: int) -> None:
    budget = Budget(context, reserve, 10)
    asked = turns(*sizes)
    fitted = fit(SYSTEM, asked, budget, encode)

    def size(first: int) -> int:
        return len(encode(conversation(SYSTEM, asked[first:])))

    assert fitted.prompt_ids == encode(conversation(SYSTEM, asked[fitted.num_left :]))
    assert len(fitted.prompt_ids) + reserve + 10 <= context
    assert 0 <= fitted.num_left < len(asked), "the question stays"
    if fitted.num_left:
        least = size(len(asked) - 1)
        mark = least + LOW_WATER * (budget.available - least)
        assert size(0) > budget.available, "nothing leaves before the budget is exceeded"
        assert size(fitted.num_left) <= mark
        assert size(fitted.num_left - 1) > mark, "one turn more would not have stayed below the mark"


def test_a_question_too_long_is_refused_with_the_numbers() -> None:
    with pytest.raises(ContextTooLongError) as caught:
        fit(SYSTEM, turns(5, 200), Budget(120, 20, 10), encode)
    # 200 and 3 for the question, 5 and 3 for the system prompt; 120 - 20 - 10 there are.
    for number in ("211 tokens", "8 of them the system prompt", "context of 120", "90 for it", "20 are kept", "121"):
        assert number in str(caught.value)


def test_a_question_that_just_fits_is_taken_and_one_token_more_is_not() -> None:
    budget = Budget(120, 20, 10)
    assert len(fit([], turns(30, 87), budget, encode).prompt_ids) == 90
    with pytest.raises(ContextTooLongError):
        fit([], turns(88), budget, encode)


def test_the_answer_is_promised_at_most_a_fourth_of_the_context() -> None:
    assert Budget.of(8192, 1024).reserve == 1024
    assert Budget.of(2048, 1024).reserve == 512
    assert Budget.of(2, 1024).reserve == 1


def test_questions_without_an_answer_are_one_message_with_the_next() -> None:
    unanswered = Turn((Message("user", "first"),))
    asked = [unanswered, Turn((Message("user", "second"), Message("assistant", "yes", (1,)))), *turns(1)]
    messages = conversation(SYSTEM, asked)
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[1].content == "first\n\nsecond"
    assert messages[2].token_ids == (1,)
