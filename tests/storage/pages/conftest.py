"""Small page stores, pages made from a number, and an operating system that fails on request."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.storage.pages import Space, Store, StoredPage, open_store
from octavo.storage.pagestore.aligned_io import System
from octavo.storage.pagestore.room import drop_rows

PAGE_SIZE = 8


@dataclass(frozen=True)
class Page:
    """A page to write; identity and data follow from its number and its parent."""

    identity: bytes
    parent: bytes
    token_ids: tuple[int, ...]
    owner: str
    origin: str
    data: bytes


@dataclass
class Kit:
    """What the tests share. One store is open at a time; its pages have 3 layers of 4000 bytes, in 16 KiB."""

    folder: Path
    root: bytes = hashlib.sha256(b"a model").digest()
    layers: int = 3
    record: int = 4000
    page_bytes: int = 4 * 4096
    opened: list[Store] = field(default_factory=list)

    def open(self, cap: int | None = 64 << 20, **options: Any) -> Store:
        """Close the store that is open, and open the folder again."""
        self.close()
        self.opened.append(open_store(self.folder, cap, **options))
        return self.opened[-1]

    def space(self, cap: int | None = 64 << 20, **options: Any) -> Space:
        return self.space_of(self.open(cap, **options))

    def space_of(self, store: Store, *, root: bytes | None = None, **settings: Any) -> Space:
        return store.open_space(
            self.root if root is None else root, {"codec": "bf16"} | settings, self.layers, self.record, PAGE_SIZE
        )

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def page(self, number: int, *, parent: bytes | None = None, owner: str = "ann") -> Page:
        parent = self.root if parent is None else parent
        data = np.random.default_rng(number).bytes(self.layers * self.record)
        identity = hashlib.sha256(parent + number.to_bytes(8, "little")).digest()
        return Page(identity, parent, tuple(range(number, number + PAGE_SIZE)), owner, "prefill", data)

    def chain(self, first: int, length: int, *, owner: str = "ann") -> list[Page]:
        pages: list[Page] = []
        for number in range(first, first + length):
            pages.append(self.page(number, parent=pages[-1].identity if pages else None, owner=owner))
        return pages

    def read(self, space: Space, found: Sequence[StoredPage | None]) -> list[bytes | str | None]:
        """What each page holds, or why it could not be read; None for one that was not found."""
        pages = [page for page in found if page is not None]
        buffers = [bytearray(self.layers * self.record) for _ in pages]
        reads = [(page, 0, self.layers, memoryview(out)) for page, out in zip(pages, buffers, strict=True)]
        held = iter([problem or bytes(out) for problem, out in zip(space.read(reads), buffers, strict=True)])
        return [None if page is None else next(held) for page in found]

    def kept(self, space: Space, pages: Sequence[Page]) -> list[bool]:
        """Which of the pages can be had; none may be had that is not what was written."""
        held = self.read(space, space.find([page.identity for page in pages]))
        for page, data in zip(pages, held, strict=True):
            assert data is None or isinstance(data, str) or data == page.data
        return [isinstance(data, bytes) for data in held]

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.pages"))

    def bytes_on_disk(self) -> int:
        files = (path for path in self.folder.iterdir() if path.is_file() and path.name != "store.lock")
        return sum(path.stat().st_size for path in files)

    def evict(self, page: Page) -> None:
        """Drop a page as eviction does."""
        core = self.opened[-1]._session.core
        drop_rows(core, core.index.pages("identity = ?", [page.identity]))

    def damage_index(self) -> None:
        path = self.folder / "index.db"
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(bytes(range(256)) * (max(path.stat().st_size - 4096, 0) // 256))

    def lose_index_after_closing(self) -> None:
        self.close()
        for path in self.folder.glob("index.db*"):
            path.unlink()


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path / "pages")
    yield kit
    kit.close()


class FailingSystem(System):
    """The real calls, until `fail` says otherwise: a call by name, and what it does instead."""

    def __init__(self) -> None:
        self._failures: dict[str, Callable[..., Any]] = {}
        self.num_calls: dict[str, int] = {}

    def fail(self, call: str, with_errno: int) -> None:
        def failing(*_: Any, **__: Any) -> int:
            raise OSError(with_errno, os.strerror(with_errno))

        self._failures[call] = failing

    def replace(self, call: str, instead: Callable[..., Any]) -> None:
        self._failures[call] = instead

    def heal(self) -> None:
        self._failures.clear()

    def open(self, path: Path, **options: Any) -> int:
        return self._call("open", path, **options)

    def preadv(self, descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        return self._call("preadv", descriptor, parts, offset)

    def pwritev(self, descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        return self._call("pwritev", descriptor, parts, offset)

    def sync(self, descriptor: int) -> None:
        self._call("sync", descriptor)

    def allocate(self, descriptor: int, num_bytes: int) -> None:
        self._call("allocate", descriptor, num_bytes)

    def punch(self, descriptor: int, offset: int, num_bytes: int) -> bool:
        return self._call("punch", descriptor, offset, num_bytes)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        self.num_calls[name] = self.num_calls.get(name, 0) + 1
        return self._failures.get(name, getattr(super(), name))(*args, **options)


@pytest.fixture
def system() -> FailingSystem:
    return FailingSystem()


@pytest.fixture
def io_error() -> int:
    return errno.EIO
