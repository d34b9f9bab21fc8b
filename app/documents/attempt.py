"""An answer and its check; where sentences are not borne out, a second is asked for, and the better kept."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.assistant.assistant import Answer
from octavo.app.assistant.budget import Turn, conversation, fit
from octavo.app.documents import prompt
from octavo.app.documents.answer import Mode, Prepared, Retrying
from octavo.app.documents.citations import Checked, check
from octavo.app.documents.pages_read import ReadPart, parts_read

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant, TextEvent
    from octavo.app.assistant.budget import Budget
    from octavo.app.documents.evidence import Source
    from octavo.app.documents.support import Entailment
    from octavo.app.documents.whole import Whole
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.tokenizer import Message


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of the model: `whole` is the document that is read whole, else the sources are searched ones.

    `system` is the person's own system prompt, `owner` who the pages belong to.
    """

    question: str
    is_overview: bool
    sources: Sequence[Source]
    whole: Whole | None
    history: Sequence[Turn]
    system: str
    owner: str


class Attempt:
    """One task, answered once or twice."""

    def __init__(
        self,
        assistant: Assistant,
        policy: GenerationPolicy,
        budget: Budget,
        task: Task,
        entailment: Entailment | None,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._assistant, self._policy, self._budget, self._task = assistant, policy, budget, task
        self._entailment, self._is_cancelled = entailment, is_cancelled
        self.mode: Mode = "search" if task.whole is None else "read"
        request = prompt.request(task.question, is_overview=task.is_overview)
        text = f"{prompt.fenced(task.sources)}\n\n{request}" if task.whole is None else request
        turns = [*task.history, Turn(tuple(user(text)))]
        system = system_message(task.system, task.whole)
        fitted = fit(system, turns, budget, self._encoded)
        self._messages = conversation(system, turns[fitted.num_left :])
        self._prompt_ids = fitted.prompt_ids
        self._num_left = fitted.num_left
        self.answer: Answer | None = None
        self.checked: Checked | None = None

    def run(self) -> Generator[Prepared | TextEvent | Retrying, None, None]:
        """Events of the first try; the second is silent, for what came of the first is on the screen."""
        yield Prepared(self.mode, len(self._prompt_ids), self._num_left)
        self.answer = yield from self._generate(self._messages)
        self.checked = self._check(self.answer)
        if not self.checked.unsupported or self.answer.finish_reason not in ("stop", "length"):
            return
        from octavo.engine.tokenizer import Message

        tried = [Message("assistant", self.answer.text), Message("user", prompt.repair(self.checked.unsupported))]
        again = [*self._messages, *tried]
        if len(self._encoded(again)) > self._budget.available:
            return
        number = len(self.checked.unsupported)
        yield Retrying(f"{number} sentence{'' if number == 1 else 's'} not borne out, trying again")
        second = _silently(self._generate(again))
        better = self._check(second)
        if (
            second.finish_reason in ("stop", "length")
            and better.num_sentences
            and _share(better) < _share(self.checked)
        ):
            self.answer, self.checked = second, better

    @property
    def is_borne_out(self) -> bool:
        """False for an answer that ended and of which nothing is borne out.

        What was cut off says something anyway, and so does a summary in words of its own, marked as not borne out.
        """
        assert self.answer is not None, "it ran"
        assert self.checked is not None, "it ran"
        if self.answer.finish_reason not in ("stop", "length"):
            return True
        return (self.checked.num_sentences if self._task.is_overview else self.checked.num_supported) > 0

    def parts(self) -> tuple[ReadPart, ...] | None:
        """What the attention selected of a document that was read whole."""
        answer, checked, whole = self.answer, self.checked, self._task.whole
        if whole is None or answer is None or answer.pages is None or checked is None:
            return None
        return parts_read(answer.pages, self._prompt_ids, whole, self._assistant.tokenizer, checked.citations)

    def _check(self, answer: Answer) -> Checked:
        return check(answer.text, self._task.sources, self._entailment, together=self._task.is_overview)

    def _encoded(self, messages: Sequence[Message]) -> list[int]:
        return self._assistant.tokenizer.encode_chat(list(messages))

    def _generate(self, messages: Sequence[Message]) -> Generator[TextEvent, None, Answer]:
        # Closed here and now, whoever still holds the events: that is what frees the engine.
        with closing(
            self._assistant.answer(messages, self._policy, owner=self._task.owner, is_cancelled=self._is_cancelled)
        ) as events:
            for event in events:
                if isinstance(event, Answer):
                    return event
                yield event
        raise AssertionError("an answer always ends with its Answer")


def system_message(system: str, whole: Whole | None) -> list[Message]:
    """What stays the same comes first, so that its pages stay valid: instructions, a document read whole."""
    from octavo.engine.tokenizer import Message

    first = prompt.INSTRUCTIONS if whole is None else whole.system
    return [Message("system", f"{first}\n\n{system}" if system else first)]


def user(text: str) -> list[Message]:
    """A message of the person."""
    from octavo.engine.tokenizer import Message

    return [Message("user", text)]


def _silently(events: Generator[TextEvent, None, Answer]) -> Answer:
    while True:
        try:
            next(events)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def _share(checked: Checked) -> float:
    return len(checked.unsupported) / max(checked.num_sentences, 1)
