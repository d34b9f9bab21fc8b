"""The library of this user, opened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.storage.documents import Documents


@contextlib.contextmanager
def open_documents(*, write: bool) -> Iterator[Documents]:
    """The documents of this user. Raises StorageError, DatabaseBusyError and DatabaseMissingError among them."""
    from octavo.storage.documents import Documents
    from octavo.storage.library import open_library
    from octavo.storage.paths import Paths

    with open_library(Paths.from_environment().documents_file, write=write) as database:
        yield Documents(database)
