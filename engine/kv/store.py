"""What the KV cache asks of the tier that outlives the process; `octavo.storage.pages` has one on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol


class NewPage(Protocol):
    """A complete page to be kept: its place in the chain, its tokens, whose it is, and its bytes."""

    @property
    def identity(self) -> bytes: ...
    @property
    def parent(self) -> bytes: ...
    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def owner(self) -> str: ...
    @property
    def origin(self) -> str:
        """ "prefill" or "decode": whose kernels computed it; they differ in the last bits."""

    @property
    def data(self) -> memoryview:
        """num_layers * record_bytes, layer by layer."""


class StoredPage(Protocol):
    """A page that is kept, and whatever its store needs to find its bytes."""

    @property
    def identity(self) -> bytes: ...
    @property
    def token_ids(self) -> tuple[int, ...]: ...


Read = tuple[StoredPage, int, int, memoryview]
"""A page, its first layer to read, how many layers, and a buffer of that many records."""


class PageSpace(Protocol):
    """The pages of one model under one set of settings. Trouble with the disk is told per page, never raised."""

    @property
    def max_pages(self) -> int:
        """How many such pages the store's cap has room for."""

    def find(self, identities: Sequence[bytes]) -> Sequence[StoredPage | None]:
        """Which of these pages are kept."""

    def submit_write(self, pages: Sequence[NewPage]) -> Future[list[str | None]]:
        """Keep pages durably, in the background; one entry a page, None or one sentence that says why it is not kept.

        Their data stays as it is until then. A call may wait for earlier ones.
        """

    def submit_read(self, reads: Sequence[Read]) -> Future[list[str | None]]:
        """Read and check in the background; one entry a read, None or what is wrong with that page."""

    def add_owner(self, identities: Sequence[bytes], owner: str) -> None:
        """These pages are somebody else's, too."""


class PageStore(Protocol):
    """Pages of any number of models."""

    def open_space(
        self, root: bytes, settings: Mapping[str, object], num_layers: int, record_bytes: int, page_size: int
    ) -> PageSpace:
        """The pages whose chains begin at `root`, the hash of `settings`."""

    @property
    def writable(self) -> bool:
        """False where another process writes, or the folder cannot be written to."""

    def pinned(self) -> frozenset[str]:
        """Owners whose pages are not given up for others'. Any thread may change that at any time."""

    def forget(self, owner: str) -> int:
        """Drop what only `owner` owns; the bytes that this freed."""
