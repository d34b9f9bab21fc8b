"""The sentence embedder as commands use it: chosen, fetched if missing, done without where it cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.app.cli.progress import announce, count_bar, progress_bar

if TYPE_CHECKING:
    from octavo.app.documents.embedder import Embedder
    from octavo.storage.documents import Documents


def opened_embedder(documents: Documents, given: str | None, *, offline: bool, configured: str = "") -> Embedder | None:
    """The embedder that was given, that the settings name (`configured`), or that was chosen earlier, else the default;
    None, and a sentence, where there is none.

    A name given is remembered. Raises AppError for a folder that is no embedder, and the engine's errors.
    """
    from octavo.app.documents.embedder import CHOICE, OFF, ensure_embedder
    from octavo.app.errors import DownloadError, IntegrityError
    from octavo.storage.errors import StorageError
    from octavo.storage.paths import Paths

    choice = given or configured or documents.choice(CHOICE)
    try:
        with progress_bar() as progress:
            embedder = ensure_embedder(
                choice, Paths.from_environment(), offline=offline, announce=announce, progress=progress
            )
    except (DownloadError, IntegrityError) as error:
        announce(f"Documents are found by keywords alone: {error}")
        return None
    if given is not None:
        try:
            documents.choose(CHOICE, given)
        except StorageError:
            announce("The embedder is used this time and not remembered: another process is adding documents.")
    if choice == OFF:
        announce("Documents are found by keywords alone; `octavo docs reindex --embedder default` changes that.")
    return embedder


def embed(documents: Documents, embedder: Embedder | None) -> None:
    """Vectors for every chunk that has none of this embedder."""
    from octavo.app.documents.embedding import embed_missing

    if embedder is not None:
        with count_bar("chunks embedded") as progress:
            embed_missing(documents, embedder, progress=progress)


def is_offline(flag: bool | None) -> bool:
    """Whether nothing may be downloaded, by the flag or the settings."""
    from octavo.app.settings import load_settings

    return load_settings({"offline": flag}).offline
