"""Forgetting a conversation: the pages that were computed from it leave every tier, now or as soon as that can be.

A note beside the page store names what is to be forgotten. It is laid down before the conversation is deleted and
goes once its pages are gone, so that whatever comes between (the program ends, another process has the store, the
disk fails) leaves no pages behind that nobody knows of: `noted` says what is left to do.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from octavo.app.models.text import human_size

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from octavo.app.assistant.assistant import Assistant
    from octavo.engine.kv.cache import KvCache
    from octavo.storage.conversations import Conversations
    from octavo.storage.pages import Store
    from octavo.storage.paths import Paths

_NOTES = "forget"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Bytes that became free; `problem` is the sentence that says why pages are still on the disk, else empty."""

    disk: int = 0
    memory: int = 0
    problem: str = ""

    def freed(self) -> str:
        """What became free, such as "12.3 MB on disk and 4.19 MB in memory"; empty for nothing."""
        places = ((self.disk, "on disk"), (self.memory, "in memory"))
        return " and ".join(f"{human_size(size)} {place}" for size, place in places if size)


def delete_conversation(conversations: Conversations, paths: Paths, conversation_id: str) -> None:
    """Delete a conversation that exists, with a note that its pages are to be forgotten. Raises StorageError."""
    note(paths, conversation_id)
    conversations.delete(conversation_id)


def note(paths: Paths, owner: str) -> None:
    """Lay down that the pages of an owner are to be forgotten."""
    folder = paths.pages_dir / _NOTES
    if paths.pages_dir.is_dir():
        with suppress(OSError):  # a full or read-only disk must not keep what somebody wants to be rid of
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / quote(owner, safe="")).touch(mode=0o600)


def noted(paths: Paths) -> list[str]:
    """The ids whose pages are still to be forgotten."""
    with suppress(OSError):
        return sorted(unquote(note.name) for note in (paths.pages_dir / _NOTES).iterdir())
    return []


def forget_noted(paths: Paths, tell: Callable[[str, Forgotten], None]) -> None:
    """Go on with what could not be forgotten so far, while this process does not have the page store itself."""
    for owner in noted(paths):
        result = forget(paths, owner)
        with suppress(Exception):
            tell(owner, result)


def forget(paths: Paths, owner: str, assistant: Assistant | None = None) -> Forgotten:
    """Drop the pages that only `owner` owns: from the tiers of `assistant`, where there is one, and from the disk.

    Called between two steps of the assistant's engine. Pages on the disk go even where the assistant has no store,
    for earlier runs may have had one.
    """
    noted_in = paths.pages_dir / _NOTES / quote(owner, safe="")
    before = held_bytes(assistant.engine.cache) if assistant is not None else 0
    disk, problem = 0, ""
    try:
        disk = _everywhere(paths, owner, assistant)
        with suppress(OSError):
            noted_in.unlink(missing_ok=True)
    except Exception as error:  # the engine's, too: the thread that asks has other work
        problem = _still_there(error, noted_in)
    memory = before - held_bytes(assistant.engine.cache) if assistant is not None else 0
    return Forgotten(disk, max(memory, 0), problem)


def held_bytes(cache: KvCache) -> int:
    """Bytes of device and host that hold pages."""
    return cache.used_bytes + host_bytes(cache)[0]


def host_bytes(cache: KvCache) -> tuple[int, int]:
    """Bytes of the host tier that hold pages, and all of them."""
    host = cache.tiers.host
    if host is None or not host.num_rows:
        return 0, 0
    return (host.num_rows - host.num_free) * (host.nbytes // host.num_rows), host.nbytes


def _everywhere(paths: Paths, owner: str, assistant: Assistant | None) -> int:
    """Bytes freed on the disk. Raises StorageError, and what the engine raises."""
    from octavo.storage.pages import PageStoreBusyError

    if assistant is not None:
        try:
            disk = assistant.engine.forget(owner)
        except PageStoreBusyError:
            pass  # it reads beside another process, which may have ended since
        else:
            if assistant.store is not None:
                return disk
    return _on_disk(paths.pages_dir, owner)


def _on_disk(folder: Path, owner: str) -> int:
    from octavo.storage.pages import PageStoreError, open_store

    if not folder.is_dir():
        return 0
    with open_store(folder, None) as store:
        if not store.writable:
            raise PageStoreError(store_problems(store)[-1])
        return store.forget(owner)


def store_problems(store: Store) -> tuple[str, ...]:
    """What is wrong with a store, in sentences; why it is read only comes last."""
    from octavo.storage.errors import StorageError

    try:
        return store.stats().problems
    except StorageError as error:
        return (str(error),)


def _still_there(error: Exception, note: Path) -> str:
    from octavo.storage.errors import StorageError

    reason = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
    when = "go when `octavo` starts next" if note.exists() else "stay there until `octavo store clear`"
    return f"Pages of what was deleted are still on disk and {when}: {reason}"
