"""Files into the library: found, read in the reading process, stored; known ones are recognised and left alone."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from octavo.app.documents.formats import kind_by_name
from octavo.app.documents.parsed import Outcome
from octavo.app.errors import AppError
from octavo.storage.document_records import NewDocument

if TYPE_CHECKING:
    from octavo.app.documents.parse import ReadDocument, Reader
    from octavo.storage.documents import Documents, StoredDocument

Status = Literal["added", "updated", "unchanged", "moved", "same", "refused"]
Progress = Callable[[int, int], None]  # (files done, files in all)

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "venv"})
_COMMIT_SECONDS = 0.5
_BLOCK = 1 << 20
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a file. "same": another document has its very bytes; "refused": it has no text to ask about."""

    path: str
    status: Status
    document: StoredDocument | None

    @property
    def outcome(self) -> str:
        return self.document.outcome if self.document is not None else Outcome.FAILED.value


@dataclass(frozen=True, slots=True)
class Found:
    """The files below what was named, and how many were passed over because Octavo does not read their kind."""

    paths: list[Path]
    num_skipped: int


def find_files(given: Sequence[Path]) -> Found:
    """Files as they are, folders with all that is readable below them; hidden ones and links to folders are left out.

    Raises AppError for what does not exist.
    """
    paths: list[Path] = []
    skipped = 0
    for item in given:
        if item.is_dir():
            for parent, folders, names in os.walk(item):
                folders[:] = sorted(name for name in folders if name[0] != "." and name not in _SKIPPED_FOLDERS)
                inside = [Path(parent) / name for name in sorted(names) if name[0] != "."]
                readable = [path for path in inside if kind_by_name(path) is not None]
                skipped += len(inside) - len(readable)
                paths += readable
        elif item.is_file():
            paths.append(item)
        else:
            raise AppError(f"There is no file {item}.")
    return Found([path.absolute() for path in dict.fromkeys(paths)], skipped)


class Indexer:
    """Adds files to `documents`, reading them with `reader`."""

    def __init__(self, documents: Documents, reader: Reader) -> None:
        self._documents = documents
        self._reader = reader

    def add(
        self,
        paths: Sequence[Path],
        *,
        password: str | None = None,
        encoding: str | None = None,
        again: bool = False,
        progress: Progress = lambda done, total: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Added]:
        """Add files one by one. They are noted first, so that what a quit leaves is taken up by `resume`.

        With `again`, unchanged files are read anew. What was yielded is committed half a second later at most, and
        when the iterator ends or is closed.
        """
        self._documents.enqueue(str(path) for path in paths)
        waiting = iter(enumerate(paths, start=1))
        progress(0, len(paths))
        more = True
        while more and not is_cancelled():
            more = False
            results = []
            with self._documents.together():
                started = time.monotonic()
                for number, path in waiting:
                    results.append(self._add_file(path, password, encoding, again=again))
                    progress(number, len(paths))
                    if is_cancelled() or time.monotonic() - started > _COMMIT_SECONDS:
                        more = True
                        break
            yield from results

    def resume(self) -> list[Path]:
        """Files that an earlier run noted and did not get to."""
        return [Path(path) for path in self._documents.queued()]

    def add_stdin(self, data: bytes, name: str, encoding: str | None = None) -> Added:
        """Add what came without a file, under a name."""
        digest = hashlib.sha256(data).hexdigest()
        known = self._documents.by_bytes(digest)
        if known is not None:
            return Added(known.path, "unchanged", known)
        path = f"{_STDIN}:{name}"
        before = self._documents.by_path(path)
        read = self._reader.read_bytes(data, name, encoding=encoding)
        document = self._documents.put(_new_document(path, name, len(data), 0, digest, read))
        return Added(path, _status(before is not None, document), document)

    def mark_missing(self) -> list[StoredDocument]:
        """Mark documents whose files are gone, and those that are back; returns the former."""
        gone = []
        for document in self._documents.list():
            if document.path.startswith(f"{_STDIN}:"):
                continue
            is_there = Path(document.path).is_file()
            if is_there != (document.state == "present"):
                self._documents.touch(document.seq, state="present" if is_there else "missing")
            if not is_there:
                gone.append(document)
        return gone

    def _add_file(self, path: Path, password: str | None, encoding: str | None, *, again: bool) -> Added:
        known = self._documents.by_path(str(path))
        try:
            stat = path.stat()
            may_be_known = not again and password is None and encoding is None
            seen = (known.size, known.mtime_ns, known.state) if known is not None else None
            if may_be_known and seen == (stat.st_size, stat.st_mtime_ns, "present"):
                self._documents.dequeue([str(path)])
                return Added(str(path), "unchanged", known)
            digest = _sha256(path)
        except OSError:
            # It went away between being found and being read.
            self._documents.dequeue([str(path)])
            if known is not None:
                self._documents.touch(known.seq, state="missing")
            return Added(str(path), "refused", known)
        if may_be_known:
            if known is not None and known.bytes_sha256 == digest:
                self._documents.touch(known.seq, path=str(path), mtime_ns=stat.st_mtime_ns)
                return Added(str(path), "unchanged", known)
            twin = self._documents.by_bytes(digest)
            if twin is not None and known is None:
                return self._same_bytes(twin, path, stat.st_mtime_ns)
        read = self._reader.read(path, password=password, encoding=encoding)
        new = _new_document(str(path), path.name, stat.st_size, stat.st_mtime_ns, digest, read)
        document = self._documents.put(new)
        return Added(str(path), _status(known is not None, document), document)

    def _same_bytes(self, twin: StoredDocument, path: Path, mtime_ns: int) -> Added:
        """One document for equal files; it follows its file when that has moved."""
        if twin.path.startswith(f"{_STDIN}:") or Path(twin.path).is_file():
            self._documents.dequeue([str(path)])
            return Added(str(path), "same", twin)
        self._documents.touch(twin.seq, path=str(path), mtime_ns=mtime_ns)
        return Added(str(path), "moved", self._documents.by_path(str(path)))


def _status(was_there: bool, document: StoredDocument) -> Status:
    if document.outcome != Outcome.OK:
        return "refused"
    return "updated" if was_there else "added"


def _new_document(path: str, name: str, size: int, mtime_ns: int, digest: str, read: ReadDocument) -> NewDocument:
    text = read.text
    return NewDocument(
        path=path,
        name=name,
        size=size,
        mtime_ns=mtime_ns,
        bytes_sha256=digest,
        text_sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        outcome=read.outcome.value,
        facts=read.facts,
        pages=read.pages,
        solid=read.solid,
        num_characters=len(text),
        chunks=[
            (c.start, c.end, c.page, json.dumps(c.headings, ensure_ascii=False), c.head, text[c.start : c.end])
            for c in read.chunks
        ],
    )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
