"""Which format a file has: by its first bytes where they tell, else by its name."""

from __future__ import annotations

import zipfile
from pathlib import Path

from octavo.app.documents.parsed import Outcome, ParseError

_CODE_SUFFIXES = (
    ".bash .c .cc .cfg .clj .cmake .conf .cpp .cs .css .cu .cuh .cxx .dart .el .erl .ex .exs .fs .go .gradle .h .hpp "
    ".hs .ini .java .jl .js .jsx .kt .kts .lisp .lua .m .mjs .ml .nim .php .pl .pm .proto .ps1 .py .pyi .r .rb .rs "
    ".scala .scm .scss .sh .sql .swift .tcl .tf .toml .ts .tsx .v .vb .vhd .vim .vue .yaml .yml .zig .zsh"
)
_CODE = frozenset(_CODE_SUFFIXES.split())
_BY_SUFFIX = {
    ".csv": "csv",
    ".docx": "docx",
    ".eml": "mail",
    ".epub": "epub",
    ".htm": "html",
    ".html": "html",
    ".json": "json",
    ".jsonl": "jsonl",
    ".log": "text",
    ".markdown": "markdown",
    ".md": "markdown",
    ".ndjson": "jsonl",
    ".odt": "odt",
    ".pdf": "pdf",
    ".rst": "text",
    ".tab": "csv",
    ".text": "text",
    ".tsv": "csv",
    ".txt": "text",
    ".xhtml": "html",
}
_CODE_NAMES = frozenset({"makefile", "dockerfile", "cmakelists.txt", "gemfile", "rakefile"})
_TEXT_NAMES = frozenset({"readme", "license", "copying", "changelog", "notice", "authors"})
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SAVE_AS = "Save it as {} with the program that made it, and add that."


def kind_by_name(path: Path) -> str | None:
    """The format that the file's name tells, None for one that Octavo does not read."""
    suffix, name = path.suffix.lower(), path.name.lower()
    if suffix in _CODE or name in _CODE_NAMES:
        return "code"
    return _BY_SUFFIX.get(suffix) or ("text" if name in _TEXT_NAMES else None)


def kind_of(path: Path) -> str:
    """The format of the file. Raises ParseError for one that is known not to be readable, and OSError."""
    with path.open("rb") as stream:
        head = stream.read(1024)
    if b"%PDF-" in head:
        return "pdf"
    if head.startswith(_OLE):
        raise _old_office(path)
    if head.startswith(b"{\\rtf"):
        raise ParseError(Outcome.UNSUPPORTED, "It is an RTF file. " + _SAVE_AS.format("DOCX or ODT"))
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_archive(path)
    return kind_by_name(path) or "text"


def _old_office(path: Path) -> ParseError:
    """The container of old Office files is that of new ones with a password, too."""
    with path.open("rb") as stream:
        head = stream.read(1 << 20)
    if "EncryptedPackage".encode("utf-16-le") in head:
        return ParseError(Outcome.ENCRYPTED, "It has a password. Save it without one, and add that.")
    return ParseError(Outcome.UNSUPPORTED, "It is in an old Office format. " + _SAVE_AS.format("DOCX"))


def _kind_of_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            mimetype = archive.read("mimetype")[:100].decode("ascii", "replace").strip() if "mimetype" in names else ""
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise ParseError(Outcome.FAILED, f"It is a damaged archive ({error}).") from None
    if mimetype == "application/epub+zip" or "META-INF/container.xml" in names:
        return "epub"
    if mimetype.startswith("application/vnd.oasis.opendocument.text"):
        return "odt"
    if "word/document.xml" in names:
        return "docx"
    raise ParseError(Outcome.UNSUPPORTED, "It is an archive, or an Office format other than DOCX, ODT and EPUB.")
