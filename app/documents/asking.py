"""A question about documents, from retrieval to a checked answer; or a refusal, before anything is generated."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from octavo.app.assistant.budget import Budget, Turn
from octavo.app.documents import prompt
from octavo.app.documents.answer import NOT_BORNE_OUT, REFUSAL, DocumentAnswer, Prepared, Retrying
from octavo.app.documents.attempt import Attempt, Task, system_message, user
from octavo.app.documents.evidence import read_whole
from octavo.app.documents.lookup import Lookup, Searcher
from octavo.app.documents.whole import Whole, WholeDocuments, owner_of

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant, TextEvent
    from octavo.app.documents.embedder import Embedder
    from octavo.app.documents.support import Entailment
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.encoders import CrossEncoder
    from octavo.engine.tokenizer import Message
    from octavo.storage.documents import Documents, StoredDocument

SEVERAL = "documents"  # owner of pages with text of several documents
_MOST_EVIDENCE = 1_200  # tokens: what a small model still reads with care, and a CPU in a few seconds
_READ_AT_ONCE = 2_000  # tokens of a document that is read whole although it never was before

AskEvents = Generator["Prepared | TextEvent | Retrying | DocumentAnswer", None, None]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about documents. `history` are the turns before it; `owner` is who the answer's pages belong to,
    None the document itself, or SEVERAL; `system` is the person's own system prompt."""

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
        self._policy = policy
        self._searcher = Searcher(documents, embedder, reranker)
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

        Documents that are read whole are asked one after the other, until one of them bears out an answer.
        Raises ContextTooLongError, StorageError.
        """
        around = len(self._encoded([*system_message(question.system, None), *user(prompt.frame(question.text))]))
        room = max(min(self.budget.available - around, _MOST_EVIDENCE), 0)
        earlier = [turn.messages[0].content for turn in question.history if turn.messages]
        lookup = self._searcher.look_up(question.text, question.among, earlier, room, self._count)
        notes = list(lookup.retrieval.notes)
        if lookup.verdict.refused:
            yield _refusal(lookup, notes)
            return
        wholes: Sequence[Whole | None] = self._to_read(question, lookup, notes) or [None]
        tried: list[tuple[Attempt, Whole | None]] = []
        for whole in wholes:
            if tried:
                yield Retrying(f"not in {_name(tried[-1][1])}, reading {_name(whole)}")
            attempt = self._attempt(question, lookup, whole, is_cancelled)
            for event in attempt.run():
                if not tried:
                    yield event
            tried.append((attempt, whole))
            if attempt.is_borne_out:
                break
        left = [_name(whole) for whole in wholes[len(tried) :]]
        if left:
            notes.append(f"Not asked, although it may answer too: {', '.join(left)}.")
        attempt, whole = tried[-1] if tried[-1][0].is_borne_out else tried[0]
        yield _answered(attempt, whole, lookup, notes)

    def whole(self, document: StoredDocument, question: Question, notes: list[str]) -> Whole | None:
        """A document to be read whole for a question, None if it is too long for that. Raises StorageError."""
        beside = user(f"{question.system}\n\n{prompt.request(question.text, is_overview=True)}")
        room = self.budget.available - len(self._encoded(beside))
        whole = self._wholes.get(document, room)
        if whole is None and question.mode == "read":
            notes.append(
                f"{document.name} is longer than the {room:,} tokens that this context has for a document, so it "
                "was searched; the setting context makes more room."
            )
        return whole

    def _to_read(self, question: Question, lookup: Lookup, notes: list[str]) -> list[Whole]:
        """The documents that are to be read whole, in this order; none if they are to be searched.

        Without being told to, one is read only if it alone covers the question, and was read before or is short: what
        several cover is for all of them together.
        """
        mode, among = question.mode, question.among
        if mode == "search" or (lookup.is_overview and len(among) > 1):
            return []
        documents = list(among) if len(among) == 1 else self._searcher.concerned(lookup)
        if mode == "auto" and len(documents) != 1:
            return []
        wholes = [self.whole(document, question, notes) for document in documents]
        found = [whole for whole in wholes if whole is not None]
        if mode == "auto":
            return [whole for whole in found if whole.num_tokens <= _READ_AT_ONCE or whole.is_known(self._assistant)]
        return found

    def _attempt(
        self, question: Question, lookup: Lookup, whole: Whole | None, is_cancelled: Callable[[], bool]
    ) -> Attempt:
        evidence, among = lookup.evidence, question.among
        sources = evidence.sources if whole is None else whole.sources
        owner = owner_of(whole.document if whole is not None else among[0])
        if whole is None and len(among) > 1:
            owner = SEVERAL
        task = Task(
            question.text,
            lookup.is_overview,
            sources,
            whole,
            question.history,
            question.system,
            question.owner or owner,
        )
        return Attempt(self._assistant, self._policy, self.budget, task, self._entailment, is_cancelled)

    def _encoded(self, messages: Sequence[Message]) -> list[int]:
        return self._assistant.tokenizer.encode_chat(list(messages))

    def _count(self, text: str) -> int:
        return len(self._assistant.tokenizer.encode(text))


def _answered(attempt: Attempt, whole: Whole | None, lookup: Lookup, notes: Sequence[str]) -> DocumentAnswer:
    answer, checked, evidence = attempt.answer, attempt.checked, lookup.evidence
    assert answer is not None, "it ran"
    assert checked is not None, "it ran"
    if whole is not None:
        evidence = read_whole(evidence, whole.document.id, {source.start: source.id for source in whole.sources})
    seconds = lookup.retrieval.seconds | {"generate": round(answer.metrics.e2e_s, 6)}
    refused = not attempt.is_borne_out
    return DocumentAnswer(
        NOT_BORNE_OUT if refused else checked.text,
        attempt.mode,
        refused,
        replace(lookup.verdict, refused=refused),
        evidence,
        checked,
        answer,
        lookup.retrieval,
        tuple(notes),
        seconds,
        attempt.parts(),
        whole.document.name if whole is not None else None,
    )


def _refusal(lookup: Lookup, notes: Sequence[str]) -> DocumentAnswer:
    found = lookup.retrieval
    return DocumentAnswer(
        REFUSAL, "search", True, lookup.verdict, lookup.evidence, None, None, found, tuple(notes), found.seconds
    )


def _name(whole: Whole | None) -> str:
    return whole.document.name if whole is not None else "the passages"
