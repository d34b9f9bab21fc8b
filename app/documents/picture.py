"""The picture of the page that a citation points to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.app.documents.parsed import Limits
from octavo.app.errors import AppError

if TYPE_CHECKING:
    from octavo.storage.documents import StoredDocument

_LIMITS = Limits(cpu_seconds=20, wall_seconds=30.0)


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as rows of RGB pixels, and `boxes` of what is cited: left, top, right, bottom in pixels."""

    width: int
    height: int
    pixels: bytes
    boxes: tuple[tuple[int, int, int, int], ...]


def has_pictures(document: StoredDocument) -> bool:
    """True if the pages of a document can be shown as pictures."""
    return document.facts["kind"] == "pdf" and bool(document.pages)


def page_picture(
    document: StoredDocument, number: int, quotes: Sequence[tuple[int, str]], password: str | None = None
) -> PagePicture:
    """Page `number`, from 1; `quotes` are (start, text) in the document's text.

    The file is read in a process of its own, with limits. Raises AppError if there is no picture of it.
    """
    from octavo.app.documents.parse import Reader

    path = Path(document.path)
    try:
        stat = path.stat()
    except OSError:
        raise AppError(f"{document.name} is not there any more, so there is no picture of its pages.") from None
    if (stat.st_size, stat.st_mtime_ns) != (document.size, document.mtime_ns):
        raise AppError(f"{document.name} was changed since it was read; read it again with /docs to see its pages.")
    first = document.pages[number - 1]
    end = document.pages[number] if number < len(document.pages) else document.num_characters
    placed = [(text, (start - first) / max(end - first, 1)) for start, text in quotes]
    with Reader(_LIMITS) as reader:
        return reader.render(path, number, placed, password=password)
