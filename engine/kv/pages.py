"""Which page holds which tokens: identities, reference counts and reuse. Ids only, never a tensor, never a place.

A page is `page_size` consecutive tokens of one sequence, across all layers. A complete page has an identity, the
hash of its parent's identity and its own token ids, so equal prefixes of any two sequences are the same pages. A
page that nobody references keeps its content and its identity until its places are needed.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from octavo.engine.kv.store import StoredPage

PageId = int
Identity = bytes
Origin = Literal["prefill", "decode"]


def chain(parent: Identity, token_ids: Sequence[int]) -> Identity:
    """Identity of a complete page: SHA-256 over its parent's identity and its token ids."""
    return hashlib.sha256(parent + array("I", token_ids).tobytes()).digest()


@dataclass(slots=True, eq=False)
class CompletePage:
    """What is known of a complete page that can be found by its identity; `stored` once it is kept on disk."""

    identity: Identity
    parent: Identity
    token_ids: tuple[int, ...]
    origin: Origin
    owners: set[str] = field(default_factory=set)
    stored: StoredPage | None = None


class PageTable:
    """Reference-counted pages; each id is free, held (referenced) or cached (complete, unreferenced).

    `root` is the identity that stands before the first page of every sequence; it covers everything other than
    token ids that decides a page's bytes (weights, rope, codec, page size). The table grows as it is asked to; what
    bounds it are the tiers, which discard a cached page when they keep no copy of it.
    """

    def __init__(self, page_size: int, root: Identity) -> None:
        self.page_size = page_size
        self.root = root
        self.num_changes = 0  # grows whenever a match may find more, or admission be given more
        self._free: list[PageId] = []
        self._references: list[int] = []
        self._complete: dict[PageId, CompletePage] = {}
        self._by_identity: dict[Identity, PageId] = {}
        self._cached: OrderedDict[PageId, None] = OrderedDict()

    @property
    def capacity(self) -> int:
        """One more than the largest id there ever was."""
        return len(self._references)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_held(self) -> int:
        return self.capacity - len(self._free) - len(self._cached)

    def chain_of(self, parent: Identity, token_ids: Sequence[int]) -> Iterator[tuple[Identity, tuple[int, ...]]]:
        """Identity and tokens of every complete page that `token_ids`, following `parent`, would have."""
        for start in range(0, len(token_ids) - self.page_size + 1, self.page_size):
            tokens = tuple(token_ids[start : start + self.page_size])
            parent = chain(parent, tokens)
            yield parent, tokens

    def match(self, token_ids: Sequence[int], parent: Identity | None = None) -> list[PageId]:
        """The longest chain of complete pages that `token_ids` start with; each gains a reference.

        `parent` is the identity before the first of them, by default the root.
        """
        found: list[PageId] = []
        for identity, tokens in self.chain_of(self.root if parent is None else parent, token_ids):
            page = self._by_identity.get(identity)
            # A hash alone is not trusted with somebody's text: the tokens are compared too.
            if page is None or self._complete[page].token_ids != tokens:
                break
            found.append(page)
        for page in found:
            self._references[page] += 1
            self._cached.pop(page, None)
        return found

    def record_of(self, page: PageId) -> CompletePage | None:
        """What is known of `page`; None unless it is the complete page of record of its identity."""
        return self._complete.get(page)

    def find(self, identity: Identity) -> PageId:
        """The page of record of an identity, -1 where there is none."""
        return self._by_identity.get(identity, -1)

    def is_cached(self, page: PageId) -> bool:
        return page in self._cached

    def stalest(self) -> Iterator[PageId]:
        """Cached pages, least recently released first, the tail of a chain before its head."""
        return iter(self._cached)

    def owned_by(self, owner: str) -> list[PageId]:
        return [page for page, record in self._complete.items() if owner in record.owners]

    def allocate(self) -> PageId:
        """A page of unknown content with one reference."""
        if not self._free:
            self._free.append(len(self._references))
            self._references.append(0)
        page = self._free.pop()
        self._references[page] = 1
        return page

    def adopt(self, stored: StoredPage, parent: Identity) -> PageId:
        """A complete page of another time, with one reference. Its identity must be unknown here."""
        page = self.allocate()
        self._by_identity[stored.identity] = page
        # What its kernels were stands on disk with it; here it is never asked, as it will not be written again.
        self._complete[page] = CompletePage(stored.identity, parent, stored.token_ids, "prefill", stored=stored)
        return page

    def complete(
        self, page: PageId, parent: Identity, token_ids: Sequence[int], origin: Origin
    ) -> tuple[Identity, PageId]:
        """Give a held page its identity, and return that and the page of record.

        That is another one where its identity was known already: the first under an identity stays, gains a
        reference, and the caller releases its own.
        """
        tokens = tuple(token_ids)
        if len(tokens) != self.page_size:
            raise ValueError(f"a complete page has {self.page_size} tokens, not {len(tokens)}")
        identity = chain(parent, tokens)
        first = self._by_identity.get(identity)
        if first is None:
            self.num_changes += 1
            self._by_identity[identity] = page
            self._complete[page] = CompletePage(identity, parent, tokens, origin)
            return identity, page
        if self._complete[first].token_ids != tokens:
            return identity, page  # other text under the same hash: it stays a page that nobody can find
        self._references[first] += 1
        self._cached.pop(first, None)
        return identity, first

    def release(self, pages: Sequence[PageId]) -> list[PageId]:
        """Drop one reference of each page of a chain, given head first; returns those that are free now."""
        self.num_changes += 1
        freed: list[PageId] = []
        for page in reversed(pages):
            if self._references[page] < 1:
                raise ValueError(f"page {page} is released more often than it was taken")
            self._references[page] -= 1
            if self._references[page]:
                continue
            if page in self._complete:
                self._cached[page] = None
            else:
                self._free.append(page)
                freed.append(page)
        return freed

    def disown(self, page: PageId) -> None:
        """A page is not to be found any more; a cached one is free now, a held one when it is released."""
        record = self._complete.pop(page, None)
        if record is None:
            return
        self.num_changes += 1
        del self._by_identity[record.identity]
        if page in self._cached:
            del self._cached[page]
            self._free.append(page)

    def check_conservation(self) -> None:
        """Raise AssertionError unless every page is exactly one of free, held and cached."""
        held = {page for page, count in enumerate(self._references) if count}
        free, cached = set(self._free), set(self._cached)
        if len(free) != len(self._free) or len(held) + len(free) + len(cached) != self.capacity:
            raise AssertionError(f"{len(held)} held + {len(free)} free + {len(cached)} cached != {self.capacity} pages")
        if held & free or held & cached or free & cached or not cached <= set(self._complete):
            raise AssertionError("a page is in two states at once")
