"""A question about documents, from retrieval to a checked answer; or a refusal, before anything is generated."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from octavo.app.assistant.assistant import Answer
from octavo.app.assistant.budget import Budget, Turn, conversation, fit
from octavo.app.documents import prompt
from octavo.app.documents.answer import NOT_BORNE_OUT, REFUSAL, DocumentAnswer, Mode, Prepared, Repairing
from octavo.app.documents.citations import Checked, Entailment, check
from octavo.app.documents.evidence import Evidence, Source, gather, read_whole
from octavo.app.documents.pages_read import ReadPart, parts_read
from octavo.app.documents.question import in_context
from octavo.app.documents.refusal import Verdict, judge
from octavo.app.documents.retrieve import Retrieval, retrieve
from octavo.app.documents.whole import Whole, WholeDocuments, owner_of

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant, TextEvent
    from octavo.app.documents.embedder import Embedder
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.encoders import CrossEncoder
    from octavo.engine.tokenizer import Message
    from octavo.storage.documents import Documents, StoredDocument

_MOST_EVIDENCE = 1_200  # tokens: what a small model still reads with care, and a CPU in a few seconds
_READ_AT_ONCE = 2_000  # tokens of a document that is read whole although it never was before

AskEvents = Generator["Prepared | TextEvent | Repairing | DocumentAnswer", None, None]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about documents. `history` are the turns before it; `owner` is who the answer's pages belong to,
    None the document itself; `system` is the person's own system prompt."""

    text: str
    among: Sequence[StoredDocument]
    mode: Literal["auto", "search", "read"] = "auto"
    history: Sequence[Turn] = ()
    owner: str | None = None
    system: str = ""


class Asker:
    """Asks one model about documents; used from the thread that owns the engine.

    `wholes` are kept by who asks again and again.
    """

    def __init__(
        self,
        assistant: Assistant,
        documents: Documents,
        policy: GenerationPolicy,
        *,
        embedder: Embedder | None = None,
        reranker: CrossEncoder | None = None,
        entailment: Entailment | None = None,
        wholes: WholeDocuments | None = None,
    ) -> None:
        self._assistant = assistant
        self._documents = documents
        self._policy = policy
        self._embedder = embedder
        self._reranker = reranker
        self._entailment = entailment
        self._wholes = wholes or WholeDocuments(assistant, documents)

    @property
    def budget(self) -> Budget:
        """Of the context, for prompt and answer."""
        return Budget.of(self._assistant.engine.max_context, self._policy.max_tokens)

    def ask(self, question: Question, is_cancelled: Callable[[], bool] = lambda: False) -> DocumentAnswer:
        """`events`, to its end."""
        found = None
        for event in self.events(question, is_cancelled):
            if isinstance(event, DocumentAnswer):
                found = event
        assert found is not None, "it always ends with a DocumentAnswer"
        return found

    def events(self, question: Question, is_cancelled: Callable[[], bool] = lambda: False) -> AskEvents:
        """Answer from the documents, or refuse: text as it comes, before it is checked, and at last the answer.

        Raises ContextTooLongError, StorageError.
        """
        asked = in_context(question.text, [turn.messages[0].content for turn in question.history if turn.messages])
        among = question.among
        found = retrieve(self._documents, asked, among, embedder=self._embedder, reranker=self._reranker)
        judging = time.perf_counter()
        verdict = judge(found, asked, self._embedder)
        found.seconds["judge"] = round(time.perf_counter() - judging, 6)
        started = time.perf_counter()
        around = len(self._encoded([*self._system(question, None), *self._user(prompt.frame(question.text))]))
        room = max(min(self.budget.available - around, _MOST_EVIDENCE), 0)
        evidence = gather(asked, found.candidates, room, self._count)
        found.seconds["choose"] = round(time.perf_counter() - started, 6)
        notes = list(found.notes)
        if verdict.refused or not evidence.sources:
            verdict = replace(verdict, refused=True)
            yield _refusal(verdict, evidence, found, notes)
            return
        whole = self.whole(question, notes)
        sources = evidence.sources if whole is None else _nearest_first(whole.sources, evidence)
        attempt = _Attempt(self, question, evidence, whole, is_cancelled)
        if whole is not None:
            evidence = read_whole(evidence, {source.start: source.id for source in whole.sources})
        yield from attempt.run(sources)
        answer, checked = attempt.answer, attempt.checked
        assert answer is not None, "it ran"
        assert checked is not None, "it ran"
        found.seconds["generate"] = round(answer.metrics.e2e_s, 6)
        # What was cut off says something all the same; what ended and is borne out by nothing is no answer.
        refused = answer.finish_reason in ("stop", "length") and checked.num_supported == 0
        text, mode = NOT_BORNE_OUT if refused else checked.text, attempt.mode
        verdict = replace(verdict, refused=refused)
        parts = attempt.parts()
        yield DocumentAnswer(
            text, mode, refused, verdict, evidence, checked, answer, found, tuple(notes), found.seconds, parts
        )

    def whole(self, question: Question, notes: list[str]) -> Whole | None:
        """The one document of a question if it is to be read whole, None if the documents are to be searched."""
        mode, among = question.mode, question.among
        if mode == "search":
            return None
        if len(among) != 1:
            if mode == "read":
                notes.append("Only a single document can be read whole; these were searched.")
            return None
        room = self.room_to_read(question)
        whole = self._wholes.get(among[0], room)
        if whole is None:
            if mode == "read":
                notes.append(
                    f"{among[0].name} is longer than the {room:,} tokens that this context has for a document, so it "
                    "was searched; the setting context makes more room."
                )
            return None
        if mode == "auto" and whole.num_tokens > _READ_AT_ONCE and not whole.is_known(self._assistant):
            return None
        return whole

    def room_to_read(self, question: Question) -> int:
        """Tokens there are for a document, beside the question and the person's system prompt."""
        beside = self._user(f"{question.system}\n\n{prompt.request(question.text)}")
        return self.budget.available - len(self._encoded(beside))

    def _system(self, question: Question, whole: Whole | None) -> list[Message]:
        """What stays the same comes first, so that its pages stay valid: instructions, a document read whole."""
        from octavo.engine.tokenizer import Message

        system = prompt.INSTRUCTIONS if whole is None else whole.system
        return [Message("system", f"{system}\n\n{question.system}" if question.system else system)]

    def _user(self, text: str) -> list[Message]:
        from octavo.engine.tokenizer import Message

        return [Message("user", text)]

    def _encoded(self, messages: Sequence[Message]) -> list[int]:
        return self._assistant.tokenizer.encode_chat(list(messages))

    def _count(self, text: str) -> int:
        return len(self._assistant.tokenizer.encode(text))


class _Attempt:
    """An answer and its check; where sentences are not borne out, a second is asked for, and the better kept."""

    def __init__(
        self,
        asker: Asker,
        question: Question,
        evidence: Evidence,
        whole: Whole | None,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._asker, self._question, self._whole = asker, question, whole
        self._is_cancelled = is_cancelled
        self.mode: Mode = "search" if whole is None else "read"
        request = prompt.request(question.text)
        text = f"{prompt.fenced(evidence.sources)}\n\n{request}" if whole is None else request
        turns = [*question.history, Turn(tuple(asker._user(text)))]
        system = asker._system(question, whole)
        fitted = fit(system, turns, asker.budget, asker._encoded)
        self._messages = conversation(system, turns[fitted.num_left :])
        self._prompt_ids = fitted.prompt_ids
        self._num_left = fitted.num_left
        self.answer: Answer | None = None
        self.checked: Checked | None = None

    def run(self, sources: Sequence[Source]) -> Generator[Prepared | TextEvent | Repairing, None, None]:
        """Events of the first try; the second is silent, for what came of the first is on the screen."""
        from octavo.engine.tokenizer import Message

        yield Prepared(self.mode, len(self._prompt_ids), self._num_left)
        self.answer = yield from self._generate(self._messages)
        self.checked = check(self.answer.text, sources, self._asker._entailment)
        if not self.checked.unsupported or self.answer.finish_reason not in ("stop", "length"):
            return
        tried = [Message("assistant", self.answer.text), Message("user", prompt.repair(self.checked.unsupported))]
        again = [*self._messages, *tried]
        if len(self._asker._encoded(again)) > self._asker.budget.available:
            return
        yield Repairing(len(self.checked.unsupported))
        repairing = self._generate(again)
        second = _silently(repairing)
        better = check(second.text, sources, self._asker._entailment)
        if (
            second.finish_reason in ("stop", "length")
            and better.num_sentences
            and _share(better) < _share(self.checked)
        ):
            self.answer, self.checked = second, better

    def parts(self) -> tuple[ReadPart, ...] | None:
        """What the attention selected of a document that was read whole."""
        answer, checked = self.answer, self.checked
        if self._whole is None or answer is None or answer.pages is None or checked is None:
            return None
        tokenizer = self._asker._assistant.tokenizer
        return parts_read(answer.pages, self._prompt_ids, self._whole, tokenizer, checked.citations)

    def _generate(self, messages: Sequence[Message]) -> Generator[TextEvent, None, Answer]:
        asker, among = self._asker, self._question.among
        own = self._question.owner or owner_of(among[0])
        # Closed here and now, whoever still holds the events: that is what frees the engine.
        with closing(
            asker._assistant.answer(messages, asker._policy, owner=own, is_cancelled=self._is_cancelled)
        ) as events:
            for event in events:
                if isinstance(event, Answer):
                    return event
                yield event
        raise AssertionError("an answer always ends with its Answer")


def _silently(events: Generator[TextEvent, None, Answer]) -> Answer:
    while True:
        try:
            next(events)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def _refusal(verdict: Verdict, evidence: Evidence, found: Retrieval, notes: Sequence[str]) -> DocumentAnswer:
    return DocumentAnswer(
        REFUSAL,
        "search",
        True,
        verdict,
        evidence,
        None,
        None,
        found,
        tuple(notes),
        found.seconds,
    )


def _nearest_first(sources: Sequence[Source], evidence: Evidence) -> tuple[Source, ...]:
    """The sources with those in front that retrieval chose: a sentence without an id is looked for there first."""
    ranks = {source.start: rank for rank, source in enumerate(evidence.sources)}
    return tuple(sorted(sources, key=lambda source: ranks.get(source.start, len(ranks))))


def _share(checked: Checked) -> float:
    return len(checked.unsupported) / max(checked.num_sentences, 1)
