"""The pages of one model under one set of settings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.erasing import drop_bad, erase
from octavo.storage.pagestore.errors import PageStoreError
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.indexfile import is_damage
from octavo.storage.pagestore.laying import NewPage
from octavo.storage.pagestore.reading import Read
from octavo.storage.pagestore.records import Shape
from octavo.storage.pagestore.room import enforce_cap
from octavo.storage.pagestore.session import Session


class Space:
    """What `Store.open_space` gives. Any thread may call any method; none raises because a disk fails."""

    def __init__(self, session: Session, root: bytes, shape: Shape) -> None:
        self.shape = shape
        self._root = root
        self._session = session

    @property
    def max_pages(self) -> int:
        """Pages of this space that the cap has room for; an eighth of it is left to the index and to odd ends."""
        return (self._session.core.cap or 0) * 7 // 8 // self.shape.page_bytes

    def find(self, identities: Sequence[bytes]) -> list[StoredPage | None]:
        """For each identity the committed page, if there is one; that it was used is noted."""
        core = self._session.core
        found = self._look_up(identities)
        with core.noting:
            pages = [found.get(identity) for identity in identities]
            pages = [None if page is None or page.page_id in core.bad else page for page in pages]
            hits = [page.page_id for page in pages if page is not None]
            core.totals.update(hits=len(hits), misses=len(pages) - len(hits))
        if core.writable:
            core.use(hits, now())
        return pages

    def write(self, pages: Sequence[NewPage]) -> list[str | None]:
        """`submit_write`, waited for."""
        return self.submit_write(pages).result()

    def submit_write(self, pages: Sequence[NewPage]) -> Future[list[str | None]]:
        """Begin to keep a batch of pages; for each None, or one sentence saying why it was not kept.

        Once that is told, what was kept is on the disk and committed; until then the data of the pages must not
        change. A few batches may be under way: one more waits for the first. They are committed in order. The first
        page under an identity stays, and gains the owner of every later one. Raises ValueError for a page that is not
        of this space's shape.
        """

        def change(core: Core) -> Future[list[str | None]]:
            drop_bad(core)
            enforce_cap(core)
            key = self._session.key(self._root, self.shape)
            assert key is not None, "whoever writes makes the space"
            return self._session.writer.submit(key, pages)

        try:
            return self._session.changing(change, settled=False)
        except PageStoreError as error:
            self._session.core.note(str(error))
            refused: Future[list[str | None]] = Future()
            refused.set_result([str(error)] * len(pages))
            return refused

    def read(self, reads: Sequence[Read]) -> list[str | None]:
        """`submit_read`, waited for."""
        return self.submit_read(reads).result()

    def submit_read(self, reads: Sequence[Read]) -> Future[list[str | None]]:
        """Read layers of pages on the reading threads: (page, first layer, layers, buffer of layers * record_bytes).

        For each None, or one sentence saying why its buffer holds nothing of use; a damaged page is served no more.
        Raises ValueError for layers a page does not have, and for a buffer of another size.
        """
        return self._session.reader.submit(self.shape, reads)

    def add_owner(self, identities: Sequence[bytes], owner: str) -> None:
        """Let `owner` own these pages, too, so that they stay when another owner is forgotten.

        That is noted in the background, before anything is forgotten. A process that only reads changes nothing.
        """

        def note(core: Core, key: SpaceKey) -> None:
            try:
                found = core.index.find(key.number, identities)
                with core.index.atomic() as connection:
                    core.index.add_owners(connection, [page.page_id for page in found.values()], owner)
            except sqlite3.Error as error:
                core.index_is_damaged |= is_damage(error)
                core.note(f"The owner of pages could not be noted in the page store: {error}.")

        def change(core: Core) -> None:
            key = self._session.key(self._root, self.shape)
            assert key is not None, "whoever writes makes the space"
            self._session.writer.do_later(lambda: note(core, key))

        self._change(change, settled=False)

    def drop(self, identities: Sequence[bytes]) -> None:
        """Erase these pages, whoever owns them; a process that only reads serves them no more."""
        pages = list(self._look_up(identities).values())
        for page in pages:
            self._session.core.mark_bad(page)
        self._change(lambda core: erase(core, pages))

    def _change(self, change: Callable[[Core], None], *, settled: bool = True) -> None:
        if not self._session.core.writable:
            return
        try:
            self._session.changing(change, settled=settled)
        except PageStoreError as error:
            self._session.core.note(str(error))

    def _look_up(self, identities: Sequence[bytes]) -> dict[bytes, StoredPage]:
        """The committed pages among these; none at all if the index cannot be read."""
        core = self._session.core
        try:
            key = self._session.key(self._root, self.shape)
            found = core.index.find(key.number, identities) if key is not None else {}
        except sqlite3.Error as error:
            core.index_is_damaged |= is_damage(error)
            core.note(f"The index of the page store could not be read: {error}.")
            return {}
        sizes = (4 * self.shape.page_size, 8 * (self.shape.num_layers + 1))
        return {
            identity: page
            for identity, page in found.items()
            if (len(page.packed_tokens), len(page.packed_checksums)) == sizes  # or the row is damaged
        }
