"""A document leaves: its text, its vectors, and the KV pages that were computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from octavo.app.assistant.forgetting import Forgotten, forget, note
from octavo.app.documents.whole import owner_of

if TYPE_CHECKING:
    from octavo.storage.documents import Documents, StoredDocument
    from octavo.storage.paths import Paths


def owners_of(document: StoredDocument, conversations: Sequence[str]) -> list[str]:
    """Who owns pages with text of a document: itself, and every conversation that asked about it."""
    return [owner_of(document), *conversations]


def note_removal(paths: Paths, documents: Documents, document: StoredDocument, conversations: Sequence[str]) -> None:
    """Take a document out of the library, with notes that its pages are to be forgotten. Raises StorageError."""
    for owner in owners_of(document, conversations):
        note(paths, owner)
    documents.remove(document.seq)


def remove_document(
    documents: Documents, document: StoredDocument, conversations: Sequence[str], paths: Paths
) -> Forgotten:
    """Remove a document where no engine of this process has pages of it. Raises StorageError."""
    note_removal(paths, documents, document, conversations)
    results = [forget(paths, owner) for owner in owners_of(document, conversations)]
    return together(results)


def together(results: Sequence[Forgotten]) -> Forgotten:
    """Several forgotten owners as one."""
    problems = dict.fromkeys(result.problem for result in results if result.problem)
    return Forgotten(sum(r.disk for r in results), sum(r.memory for r in results), " ".join(problems))
