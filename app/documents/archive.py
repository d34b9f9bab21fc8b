"""Members of a document that is a zip archive: read within limits, and parsed as XML that cannot reach outside."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from octavo.app.documents.parsed import Limits, Outcome, ParseError

_BLOCK = 1 << 20


class Archive:
    """An open archive; what is read from it all together has to stay below the limit for a file."""

    def __init__(self, archive: zipfile.ZipFile, limits: Limits) -> None:
        self._archive = archive
        self._left = limits.file_bytes
        self.names = frozenset(archive.namelist())

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises ParseError if it is missing, encrypted, damaged or too large."""
        try:
            with self._archive.open(name) as member:
                pieces = []
                while piece := member.read(_BLOCK):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise ParseError(Outcome.FAILED, "Unpacked, it is larger than a document may be.")
                    pieces.append(piece)
                return b"".join(pieces)
        except KeyError:
            raise ParseError(Outcome.FAILED, f"It is damaged: {name} is missing in it.") from None
        except (RuntimeError, NotImplementedError):
            raise ParseError(Outcome.ENCRYPTED, "Its archive has a password. Save it without one.") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise ParseError(Outcome.FAILED, f"It is damaged: {name} cannot be unpacked ({error}).") from None

    def xml(self, name: str) -> etree._Element:
        """A member as a tree; entities are not resolved and nothing is fetched. Raises ParseError."""
        parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
        try:
            return etree.fromstring(self.read(name), parser)
        except etree.XMLSyntaxError as error:
            raise ParseError(Outcome.FAILED, f"It is damaged: {name} is not XML ({error.msg}).") from None


@contextlib.contextmanager
def opened(path: Path, limits: Limits) -> Iterator[Archive]:
    """The archive at `path`. Raises ParseError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Archive(archive, limits)
    except zipfile.BadZipFile as error:
        raise ParseError(Outcome.FAILED, f"It is a damaged archive ({error}).") from None
