"""Who pages are kept for, under the names that a person gave: the titles of conversations, the names of documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from octavo.app.tui.text import one_line

if TYPE_CHECKING:
    from octavo.app.tui.backend import Backend

DOCUMENT = "document:"
"""What stands before a document's id in the name of the owner that it is."""
_LONGEST = 50


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner of pages. "other" is whoever is neither: a question without a conversation, and what was deleted."""

    name: str
    kind: Literal["conversation", "document", "other"]

    @property
    def named(self) -> str:
        """In a sentence."""
        return self.name if self.kind == "other" else f"{self.kind} “{self.name}”"


def find_owners(backend: Backend, ids: Iterable[str]) -> dict[str, Owner]:
    """The owners of these ids. Reads databases, so it is for a thread. Raises StorageError."""
    ids = list(ids)
    documents = _document_names() if any(owner.startswith(DOCUMENT) for owner in ids) else {}
    return {owner: _find(backend, owner, documents) for owner in ids}


def _find(backend: Backend, owner: str, documents: dict[str, str]) -> Owner:
    from octavo.storage.errors import StorageError

    if owner.startswith(DOCUMENT):
        name = documents.get(owner.removeprefix(DOCUMENT))
        return Owner(one_line(name, _LONGEST), "document") if name is not None else Owner("a removed document", "other")
    if not owner:
        return Owner("a question without a conversation", "other")
    try:
        return Owner(one_line(backend.conversations.get(owner).title, _LONGEST) or "New conversation", "conversation")
    except StorageError:
        return Owner("a deleted conversation", "other")


def _document_names() -> dict[str, str]:
    from octavo.app.documents.library import open_documents
    from octavo.storage.errors import StorageError

    try:
        with open_documents(write=False) as documents:
            return {document.id: document.name for document in documents.list()}
    except StorageError:
        return {}
