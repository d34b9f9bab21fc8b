"""The right to write the database, held by one process at a time. It dies with its process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from octavo.storage.errors import StorageError


class DatabaseBusyError(StorageError):
    """Another process is writing this database."""


class WriterLock:
    """An exclusive lock on `path`, whose text is the process id of the holder.

    The file stays when the lock is released: unlinking it would let two processes lock two files of one name.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock at once. Raises DatabaseBusyError if it is held, StorageError if the file cannot be opened."""
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"The folder {path.parent} cannot be written ({error.strerror}); make it writable, or set OCTAVO_HOME."
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise DatabaseBusyError(
                f"Octavo is already open in another process (pid {pid or 'unknown'}); use that one, or close it first."
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Let the next process in; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
