"""EPUB 2 and 3: the pages of the spine in order, read as HTML."""

from __future__ import annotations

import posixpath
from pathlib import Path
from urllib.parse import unquote

from octavo.app.documents.archive import Archive, opened
from octavo.app.documents.building import TextBuilder
from octavo.app.documents.encodings import decode
from octavo.app.documents.html import add_html
from octavo.app.documents.parsed import Limits, Outcome, Parsed, ParseError

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html"})


def parse_epub(path: Path, limits: Limits) -> Parsed:
    """Read a book. Raises ParseError."""
    builder = TextBuilder(limits)
    with opened(path, limits) as archive:
        rootfile = archive.xml(_CONTAINER).find(".//{*}rootfile")
        if rootfile is None:
            raise ParseError(Outcome.FAILED, "It is damaged: its container names no book.")
        package = rootfile.get("full-path") or ""
        book = archive.xml(package)
        members = _spine(book, posixpath.dirname(package))
        _refuse_locked(archive, members)
        missing = [name for name in members if name not in archive.names]
        for name in members:
            if name in archive.names:
                add_html(builder, decode(archive.read(name)).text)
    title = book.findtext(".//{http://purl.org/dc/elements/1.1/}title") or ""
    parsed = Parsed(
        "epub", text=builder.text(), marks=builder.marks, hidden=builder.hidden, title=" ".join(title.split())
    )
    if missing:
        parsed.notes.append(f"{len(missing)} parts of the book are missing in the file: {', '.join(missing[:3])}.")
    if builder.num_invisible:
        parsed.notes.append(f"{builder.num_invisible:,} invisible characters were left out.")
    return parsed


def _spine(book: object, folder: str) -> list[str]:
    """Names of the pages' members, in reading order."""
    from lxml import etree

    assert isinstance(book, etree._Element)
    items = {item.get("id"): item for item in book.iter("{*}item")}
    found = [items[ref.get("idref")] for ref in book.iter("{*}itemref") if ref.get("idref") in items]
    hrefs = [unquote((item.get("href") or "").partition("#")[0]) for item in found if item.get("media-type") in _PAGES]
    return [posixpath.normpath(posixpath.join(folder, href)) for href in hrefs if href]


def _refuse_locked(archive: Archive, members: list[str]) -> None:
    """Raise ParseError if pages are encrypted; fonts often are, which does not matter here."""
    if _ENCRYPTION not in archive.names:
        return
    locked = {unquote(ref.get("URI") or "") for ref in archive.xml(_ENCRYPTION).iter("{*}CipherReference")}
    if locked.intersection(members):
        raise ParseError(Outcome.ENCRYPTED, "It is protected against copying; Octavo cannot read it.")
