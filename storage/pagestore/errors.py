"""What the page store refuses, and how it says that the disk failed."""

from __future__ import annotations

import errno

from octavo.storage.errors import StorageError


class PageStoreError(StorageError):
    """The page store cannot be opened or used as it was asked."""


class PageStoreBusyError(PageStoreError):
    """Another process writes this page store."""


class AlignmentError(StorageError):
    """A transfer past the page cache that is not made of whole, aligned units: a fault of the program."""


# The process lacks something for now; what lies on the disk is not in doubt.
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether there was no space on the disk, or no quota."""
    return error.errno in _FULL


def is_passing(error: OSError) -> bool:
    """Whether the same call may succeed later although nothing on the disk changed."""
    return error.errno in _PASSING


def why_not(action: str, error: OSError) -> str:
    """One sentence saying that `action` failed, and why."""
    if is_full(error):
        return f"{action}: the disk is full."
    if error.errno == errno.EROFS:
        return f"{action}: the disk is mounted read-only."
    return f"{action}: {error.strerror or error}."
