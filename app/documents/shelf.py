"""The documents behind conversations: the library, opened when it is first needed, and what is open where."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from octavo.app.documents.parsed import Outcome

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.app.documents.support import Entailment
    from octavo.app.settings import Settings
    from octavo.engine.encoders import CrossEncoder
    from octavo.storage.attachments import Attached, Attachments
    from octavo.storage.database import Database
    from octavo.storage.documents import Documents, StoredDocument
    from octavo.storage.paths import Paths


class Shelf:
    """Used from any thread. Nothing slow is opened before it is needed, and nothing is downloaded here."""

    def __init__(self, paths: Paths, settings: Settings, attachments: Attachments) -> None:
        self.paths = paths
        self.settings = settings
        self.attachments = attachments
        self._lock = threading.RLock()
        self._database: Database | None = None
        self._documents: Documents | None = None
        self._embedder: Embedder | None = None
        self._embedder_choice: str | None = None
        self._reranker: CrossEncoder | None = None
        self._entailment: Entailment | None = None

    def documents(self, *, make: bool = False) -> Documents | None:
        """The library; None if there is none yet, unless it is to be made. Raises StorageError.

        It is open for reading only while another process adds documents.
        """
        from octavo.storage.database import DatabaseBusyError
        from octavo.storage.documents import Documents
        from octavo.storage.library import open_library

        file = self.paths.documents_file
        with self._lock:
            if self._documents is not None and not self._documents.is_writable and make and self._database is not None:
                self._database.close()  # perhaps the other process has ended
                self._documents = None
            if self._documents is None and (make or file.exists()):
                try:
                    self._database = open_library(file)
                except DatabaseBusyError:
                    self._database = open_library(file, write=False)
                self._documents = Documents(self._database)
            return self._documents

    def open_in(self, conversation_id: str) -> tuple[Attached, list[StoredDocument]]:
        """What is open in a conversation, and the documents that this comes to. Raises StorageError."""
        attached = self.attachments.of(conversation_id)
        documents = self.documents() if attached.paths else None
        found: dict[int, StoredDocument] = {}
        for path in attached.paths if documents is not None else ():
            found |= {document.seq: document for document in documents.below(path)}  # type: ignore[union-attr]
        return attached, list(found.values())

    def askable(self, conversation_id: str) -> tuple[Attached, list[StoredDocument]]:
        """As `open_in`, but only documents that have text."""
        attached, found = self.open_in(conversation_id)
        return attached, [document for document in found if document.outcome == Outcome.OK and document.num_chunks]

    def embedder(self) -> Embedder | None:
        """The embedder of the settings, or the one chosen with the documents; None if it is off or not here.

        Raises the engine's errors.
        """
        from octavo.app.documents.embedder import load_embedder

        with self._lock:
            choice = self.embedder_choice()
            if self._embedder is None or choice != self._embedder_choice:
                self._embedder, self._embedder_choice = load_embedder(choice, self.paths), choice
            return self._embedder

    def embedder_choice(self) -> str:
        """What was chosen: by the settings, else with the documents, else "" for the default."""
        from octavo.app.documents.embedder import CHOICE

        documents = self.documents()
        return self.settings.embedder or (documents.choice(CHOICE) if documents is not None else "")

    def reranker(self) -> CrossEncoder | None:
        """The cross-encoder that orders passages, if the settings name one. Raises AppError and the engine's errors."""
        from octavo.app.documents.reranker import open_reranker

        with self._lock:
            if self._reranker is None and self.settings.reranker:
                self._reranker = open_reranker(self.settings.reranker)
            return self._reranker

    def entailment(self) -> Entailment | None:
        """The NLI model that checks citations, where the settings name its folder. Raises the engine's errors."""
        from octavo.app.documents.entailment import open_entailment

        with self._lock:
            if self._entailment is None and self.settings.nli:
                self._entailment = open_entailment(self.settings.nli)
            return self._entailment

    def close(self) -> None:
        """Let go of the library."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = self._documents = None
