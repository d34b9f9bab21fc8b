"""A batch of pages before it is written: which are new, which are there already, and where the new ones go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from octavo.storage.pagestore.core import Core, SpaceKey, now
from octavo.storage.pagestore.laying import NewPage, Placed, check_page
from octavo.storage.pagestore.records import pack_numbers
from octavo.storage.pagestore.room import make_room

_OTHER_TOKENS = "The page was not kept: another page has its identity, but other tokens."


class Batch:
    """Pages by their number in the batch; `results` has for each None, or one sentence saying why it was not kept."""

    def __init__(self, core: Core, space: SpaceKey, pages: Sequence[NewPage]) -> None:
        """Sort the pages, and make room for the new ones.

        Raises ValueError for a page of a wrong shape, and sqlite3.Error.
        """
        for page in pages:
            check_page(page, space)
        self.space = space
        self.results: list[str | None] = [None] * len(pages)
        self.new: list[tuple[int, NewPage, bytes]] = []  # with its token ids, packed
        self.twins: list[tuple[int, NewPage]] = []  # of a page that is there, or is new in this batch
        self.known: dict[bytes, int] = {}  # of the pages that are there, by identity
        self.depths: dict[bytes, int] = {}  # of the new pages that have a place, by identity
        self._parents: dict[bytes, int] = {}  # depths of pages that are there, or under way
        self._core = core
        self._sort(pages)
        # Making room must not cost a page that this batch goes on from, or is about to share.
        core.use(self.known.values(), now())
        core.leases.hold(self.known.values())
        try:
            self.places, reason = make_room(core, space, len(self.new))
        finally:
            core.leases.release(self.known.values())
        for number, _, _ in self.new[len(self.places) :]:
            self.results[number] = reason

    def placed(self) -> Iterator[Placed]:
        """The new pages that have a place, in order."""
        for (number, page, packed), place in zip(self.new, self.places, strict=False):
            parent = self.depths.get(page.parent, self._parents.get(page.parent, -1))
            depth = self.depths[page.identity] = parent + 1
            written = self._core.totals["bytes_written"]
            self._core.add(bytes_written=self.space.shape.page_bytes)
            yield Placed(number, page, packed, self._core.next_epoch(), depth, place, written)

    def fail_all(self, reason: str) -> None:
        """Nothing was kept."""
        self.results = [result or reason for result in self.results]

    def _sort(self, pages: Sequence[NewPage]) -> None:
        wanted = {page.identity for page in pages} | {page.parent for page in pages}
        under_way = self._core.under_way.depths()
        if any(page.identity in under_way for page in pages):
            self._core.settle()
            under_way.clear()
        found = self._core.index.find(self.space.number, list(wanted))
        self.known = {identity: page.page_id for identity, page in found.items()}
        self._parents = under_way | {identity: page.depth for identity, page in found.items()}
        tokens = {identity: page.packed_tokens for identity, page in found.items()}
        for number, page in enumerate(pages):
            packed = pack_numbers("I", page.token_ids)
            if page.identity not in tokens:
                tokens[page.identity] = packed
                self.new.append((number, page, packed))
            elif tokens[page.identity] == packed:
                self.twins.append((number, page))
            else:
                self.results[number] = _OTHER_TOKENS
