"""A question about documents, from retrieval to a checked answer; or a refusal, before anything is generated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from octavo.app.assistant.assistant import Answer
from octavo.app.assistant.budget import Budget
from octavo.app.documents import prompt
from octavo.app.documents.citations import Checked, Entailment, check
from octavo.app.documents.evidence import Evidence, Source, gather
from octavo.app.documents.refusal import Verdict, judge
from octavo.app.documents.retrieve import Retrieval, retrieve

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.documents.embedder import Embedder
    from octavo.engine.config import GenerationPolicy
    from octavo.engine.encoders import CrossEncoder
    from octavo.engine.tokenizer import Message
    from octavo.storage.documents import Documents, StoredDocument

Mode = Literal["search", "read"]
REFUSAL = "The documents do not answer this."
_MOST_EVIDENCE = 1_200  # tokens: what a small model still reads with care, and a CPU in a few seconds
_READ_AT_ONCE = 2_000  # tokens of a document that is read whole although it never was before
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """What a question about documents came to. `answer` is None where nothing was generated."""

    text: str
    mode: Mode
    refused: bool
    verdict: Verdict
    evidence: Evidence
    checked: Checked | None
    answer: Answer | None
    retrieval: Retrieval
    notes: tuple[str, ...]
    seconds: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """The answer as `octavo ask --doc --json` prints it, next to what it prints of any answer."""
        return {
            "text": self.text,
            "citations": [citation.as_json() for citation in self.checked.citations] if self.checked else [],
            "ledger": [row.as_json() for row in self.evidence.ledger],
            "mode": self.mode,
            "refused": self.refused,
            "coverage": self.verdict.coverage,
            "missing_words": list(self.verdict.missing),
            "nearest": [_place(source) for source in self.evidence.sources[:_NEAREST]] if self.refused else [],
            "unsupported": list(self.checked.unsupported) if self.checked else [],
            "notes": list(self.notes),
            "stage_seconds": self.seconds,
            **({"usage": {}} if self.answer is None else self.answer.record()),
        }


class Asker:
    """Asks one model about documents; used from the thread that owns the engine."""

    def __init__(
        self,
        assistant: Assistant,
        documents: Documents,
        policy: GenerationPolicy,
        model: str,
        *,
        embedder: Embedder | None = None,
        reranker: CrossEncoder | None = None,
        entailment: Entailment | None = None,
    ) -> None:
        self._assistant = assistant
        self._documents = documents
        self._policy = policy
        self._model = model
        self._embedder = embedder
        self._reranker = reranker
        self._entailment = entailment

    def ask(
        self,
        question: str,
        among: Sequence[StoredDocument],
        *,
        mode: Literal["auto", "search", "read"] = "auto",
        history: Sequence[Message] = (),
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> DocumentAnswer:
        """Answer from the documents, or refuse. Raises ContextTooLongError, StorageError."""
        found = retrieve(self._documents, question, among, embedder=self._embedder, reranker=self._reranker)
        verdict = judge(found)
        started = time.perf_counter()
        budget = Budget.of(self._assistant.engine.max_context, self._policy.max_tokens)
        around = len(self._assistant.tokenizer.encode_chat(self._messages(prompt.frame(question), history)))
        room = max(min(budget.available - around, _MOST_EVIDENCE), 0)
        evidence = gather(question, found.candidates, room, self._count)
        seconds = {**found.seconds, "choose": round(time.perf_counter() - started, 6)}
        notes = list(found.notes)
        if verdict.refused or not evidence.sources:
            verdict = replace(verdict, refused=True)
            return DocumentAnswer(REFUSAL, "search", True, verdict, evidence, None, None, found, tuple(notes), seconds)
        whole = self._whole(among, budget.available - around, mode, notes)
        chosen: Mode = "search" if whole is None else "read"
        sources = evidence.sources if whole is None else whole
        answer, checked = self._answer(question, sources, chosen, among, history, is_cancelled)
        if whole is not None and answer.error is None and answer.finish_reason != "cancelled":
            self._documents_read(among[0])
        seconds["generate"] = round(answer.metrics.e2e_s, 6)
        supported = checked.num_sentences - len(checked.unsupported)
        refused = answer.finish_reason in ("stop", "length") and supported == 0
        text = REFUSAL if refused else checked.text
        return DocumentAnswer(text, chosen, refused, verdict, evidence, checked, answer, found, tuple(notes), seconds)

    def _answer(
        self,
        question: str,
        sources: Sequence[Source],
        mode: Mode,
        among: Sequence[StoredDocument],
        history: Sequence[Message],
        is_cancelled: Callable[[], bool],
    ) -> tuple[Answer, Checked]:
        """An answer and its check; where sentences are not borne out, a second is asked for, and the better kept."""
        from octavo.engine.tokenizer import Message

        owner = f"document:{among[0].id}" if mode == "read" else ""
        messages = self._messages(
            f"{prompt.fenced(sources)}\n\n{prompt.request(question)}", history, sources if mode == "read" else ()
        )
        if mode == "read":
            messages[-1] = Message("user", prompt.request(question))
        answer = self._run(messages, owner, is_cancelled)
        checked = check(answer.text, sources, self._entailment)
        if not checked.unsupported or answer.finish_reason == "cancelled" or answer.error is not None:
            return answer, checked
        again = [*messages, Message("assistant", answer.text), Message("user", prompt.repair(checked.unsupported))]
        budget = Budget.of(self._assistant.engine.max_context, self._policy.max_tokens)
        if len(self._assistant.tokenizer.encode_chat(again)) > budget.available:
            return answer, checked
        second = self._run(again, owner, is_cancelled)
        better = check(second.text, sources, self._entailment)
        if better.num_sentences and _share(better) < _share(checked):
            return second, better
        return answer, checked

    def _run(self, messages: Sequence[Message], owner: str, is_cancelled: Callable[[], bool]) -> Answer:
        answer = None
        for event in self._assistant.answer(messages, self._policy, owner=owner, is_cancelled=is_cancelled):
            if isinstance(event, Answer):
                answer = event
        assert answer is not None, "an answer always ends with its Answer"
        return answer

    def _messages(self, content: str, history: Sequence[Message], document: Sequence[Source] = ()) -> list[Message]:
        """What stays the same comes first, so that its pages stay valid: instructions, a document read whole."""
        from octavo.engine.tokenizer import Message

        system = f"{prompt.INSTRUCTIONS}\n\n{prompt.fenced(document)}" if document else prompt.INSTRUCTIONS
        return [Message("system", system), *history, Message("user", content)]

    def _whole(
        self, among: Sequence[StoredDocument], room: int, mode: str, notes: list[str]
    ) -> tuple[Source, ...] | None:
        """All of a single document as sources in order if it is to be read whole, None if it is to be searched."""
        if mode == "search":
            return None
        if len(among) != 1:
            if mode == "read":
                notes.append("Only a single document can be read whole; these were searched.")
            return None
        document = among[0]
        if document.num_characters > 8 * room:
            sources: tuple[Source, ...] = ()
            tokens = room + 1
        else:
            sources = tuple(
                Source(f"C{place}", document, c.start, c.stop, c.page, c.headings, c.head, c.text, c.text)
                for place, c in enumerate(self._documents.chunks_of(document), start=1)
                if c.text.strip()
            )
            tokens = self._count(prompt.fenced(sources))
        if tokens > room:
            if mode == "read":
                notes.append(f"{document.name} is too long to be read whole in this context; it was searched.")
            return None
        if mode == "auto" and tokens > _READ_AT_ONCE and self._documents.choice(self._read_key(document)) != "1":
            return None
        return sources

    def _documents_read(self, document: StoredDocument) -> None:
        """Remember that its pages were computed, where the library may be written."""
        from octavo.storage.errors import StorageError

        try:
            self._documents.choose(self._read_key(document), "1")
        except StorageError:
            return  # another process has the right to write; the pages are there all the same

    def _read_key(self, document: StoredDocument) -> str:
        return f"read:{self._model}:{document.id}:{document.text_sha256[:16]}"

    def _count(self, text: str) -> int:
        return len(self._assistant.tokenizer.encode(text))


def _share(checked: Checked) -> float:
    return len(checked.unsupported) / max(checked.num_sentences, 1)


def _place(source: Source) -> dict[str, Any]:
    text = " ".join(source.text.split())
    return {
        "document": source.document.name,
        "page": source.page,
        "start": source.start,
        "end": source.end,
        "text": text if len(text) <= 200 else text[:199] + "…",
    }
