"""What a question about documents comes to, as values that can be printed and stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Answer
    from octavo.app.documents.citations import Checked
    from octavo.app.documents.evidence import Evidence
    from octavo.app.documents.pages_read import ReadPart
    from octavo.app.documents.refusal import Verdict
    from octavo.app.documents.retrieve import Candidate, Retrieval

Mode = Literal["search", "read"]
REFUSAL = "The documents do not answer this."
NOT_BORNE_OUT = "The model found no answer that the documents bear out."
_NEAREST = 3
_FEWEST_LETTERS = 20  # of a passage that is worth showing: a page's number by itself is not
_STORED_ROWS = 40
_WORDS = 8


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt is made and goes to the model; the first `num_left` turns of the history are not in it."""

    mode: Mode
    prompt_tokens: int
    num_left: int


@dataclass(frozen=True, slots=True)
class Retrying:
    """Another try is made, which does not stream; `why` says it in a few words."""

    why: str


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """What a question about documents came to. `answer` is None where nothing was generated.

    `parts` are what its attention selected of the document that was `read` whole, None where nothing was to be
    selected: all of it was read.
    """

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
    parts: tuple[ReadPart, ...] | None = None
    read: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The answer as `octavo ask --doc --json` prints it, next to what it prints of any answer."""
        usage = {"usage": {}, "finish_reason": "stop"} if self.answer is None else self.answer.record()
        return {"text": self.text, **self.record(), "stage_seconds": self.seconds, **usage}

    def record(self) -> dict[str, Any]:
        """How the answer stands to its documents, in values that JSON has: what is kept beside its text."""
        checked = self.checked
        return {
            "citations": [citation.as_json() for citation in checked.citations] if checked else [],
            "ledger": [row.as_json() for row in self.evidence.ledger[:_STORED_ROWS]],
            "mode": self.mode,
            "read": self.read,
            "refused": self.refused,
            "coverage": self.verdict.coverage,
            "missing_words": list(self.verdict.missing),
            "lacking": self.verdict.lacking,
            "nearest": self._nearest() if self.refused else [],
            "unsupported": list(checked.unsupported) if checked else [],
            "unknown_ids": list(checked.unknown_ids) if checked else [],
            "pages_read": [part.as_json() for part in self.parts] if self.parts is not None else None,
            "notes": list(self.notes),
        }

    def _nearest(self) -> list[dict[str, Any]]:
        """The best candidates, whether or not they were good enough to be sources."""
        different = [
            candidate
            for candidate in self.retrieval.candidates
            if candidate.duplicate_of is None and sum(map(str.isalnum, candidate.chunk.text)) >= _FEWEST_LETTERS
        ]
        return [_place(candidate) for candidate in different[:_NEAREST]]


def cited_names(record: Mapping[str, Any]) -> dict[str, str]:
    """The names of the documents that an answer's record cites, by id."""
    names = {row["document_id"]: row["document"] for row in record["ledger"]}
    return {each["document"]: names.get(each["document"], "") for each in record["citations"]}


def reasons(record: Mapping[str, Any]) -> list[str]:
    """Why an answer's record says that the documents were refused: what they do not hold, in sentences."""
    found = []
    if record["missing_words"]:
        found.append(f"Not found in them: {', '.join(record['missing_words'][:_WORDS])}.")
    if record.get("lacking"):
        found.append(f"No {record['lacking']} stands with what was asked about.")
    return found


def _place(candidate: Candidate) -> dict[str, Any]:
    chunk, text = candidate.chunk, " ".join(candidate.chunk.text.split())
    return {
        "document": candidate.document.name,
        "document_id": candidate.document.id,
        "page": chunk.page,
        "start": chunk.start,
        "end": chunk.stop,
        "text": text if len(text) <= 200 else text[:199] + "…",
    }
