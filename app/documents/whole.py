"""A document read whole: the beginning of its prompt, which stays the same for every question, and its KV pages.

Instructions and document come first and nothing that changes is among them, so the pages of both stay valid whatever
is asked, in whichever conversation and with whichever system prompt: that follows the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.app.documents import prompt
from octavo.app.documents.evidence import Source

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.storage.documents import Documents, StoredDocument

_KEPT = 4
_CHARACTERS_A_TOKEN = 8  # more than any tokenizer puts into one on average


def owner_of(document: StoredDocument) -> str:
    """The owner of the pages that a document's reading fills."""
    return f"document:{document.id}"


@dataclass(frozen=True, slots=True)
class Whole:
    """A document's chunks as sources in order, the system message that holds them, and its tokens in a prompt."""

    document: StoredDocument
    sources: tuple[Source, ...]
    system: str
    prompt_ids: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids)

    def is_known(self, assistant: Assistant) -> bool:
        """True if all of it was read: its pages are in memory or on disk, but for one that is never complete."""
        engine = assistant.engine
        # What follows the system message differs from question to question, and a page or two with it.
        return engine.inspection.num_known(self.prompt_ids) >= self.num_tokens - 3 * engine.config.page_size


class WholeDocuments:
    """Makes `Whole`s for one model and keeps the last few: they are asked for with every question."""

    def __init__(self, assistant: Assistant, documents: Documents) -> None:
        self._assistant = assistant
        self.documents = documents
        self._kept: dict[tuple[int, str], Whole] = {}

    def get(self, document: StoredDocument, room: int) -> Whole | None:
        """The document, or None if it has more than `room` tokens. Raises StorageError."""
        if document.num_characters > _CHARACTERS_A_TOKEN * room:
            return None
        key = document.seq, document.text_sha256
        whole = self._kept.pop(key, None) or self._make(document)
        self._kept[key] = whole
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return whole if whole.num_tokens <= room else None

    def _make(self, document: StoredDocument) -> Whole:
        from octavo.engine.tokenizer import Message

        sources = tuple(
            Source(f"C{place}", document, c.start, c.stop, c.page, c.headings, c.head, c.text, c.text)
            for place, c in enumerate(self.documents.chunks_of(document), start=1)
            if c.text.strip()
        )
        system = f"{prompt.INSTRUCTIONS}\n\n{prompt.fenced(sources)}"
        ids = self._assistant.tokenizer.encode_chat([Message("system", system), Message("user", "")])
        return Whole(document, sources, system, tuple(ids))
