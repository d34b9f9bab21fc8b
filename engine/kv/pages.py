"""Which page holds which tokens: identities, reference counts and reuse. Ids only, never a tensor.

A page is `page_size` consecutive tokens of one sequence, across all layers. A complete page has an identity, the
hash of its parent's identity and its own token ids, so equal prefixes of any two sequences are the same pages. A
page that nobody references keeps its content and its identity until its place is needed: least recently released
first, and the tail of a chain before its head.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.engine.errors import OutOfPagesError

PageId = int
Identity = bytes


def chain(parent: Identity, token_ids: Sequence[int]) -> Identity:
    """Identity of a complete page: SHA-256 over its parent's identity and its token ids."""
    return hashlib.sha256(parent + array("I", token_ids).tobytes()).digest()


@dataclass(slots=True)
class _Complete:
    """What is known of a complete page that can be found by its identity."""

    identity: Identity
    token_ids: tuple[int, ...]


class PagePool:
    """Reference-counted pages `0 .. num_pages - 1`; each is free, held (referenced) or cached (complete, unreferenced).

    `root` is the identity that stands before the first page of every sequence; it covers everything other than
    token ids that decides a page's bytes (weights, rope, codec, page size).
    """

    def __init__(self, num_pages: int, page_size: int, root: Identity) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.root = root
        self.num_changes = 0  # grows whenever a match may find more, or an allocation be given more
        self._free: list[PageId] = list(range(num_pages - 1, -1, -1))
        self._references = [0] * num_pages
        self._complete: dict[PageId, _Complete] = {}
        self._by_identity: dict[Identity, PageId] = {}
        self._cached: OrderedDict[PageId, None] = OrderedDict()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_available(self) -> int:
        """Pages an `allocate` can still be given."""
        return len(self._free) + len(self._cached)

    @property
    def num_held(self) -> int:
        return self.num_pages - self.num_available

    def match(self, token_ids: Sequence[int]) -> list[PageId]:
        """The longest chain of complete pages whose tokens start `token_ids`; each gains a reference."""
        found: list[PageId] = []
        identity = self.root
        for start in range(0, len(token_ids) - self.page_size + 1, self.page_size):
            tokens = tuple(token_ids[start : start + self.page_size])
            identity = chain(identity, tokens)
            page = self._by_identity.get(identity)
            # A hash alone is not trusted with somebody's text: the tokens are compared too.
            if page is None or self._complete[page].token_ids != tokens:
                break
            found.append(page)
        for page in found:
            self._references[page] += 1
            self._cached.pop(page, None)
        return found

    def identity_of(self, page: PageId) -> Identity:
        """The identity of a complete page of record."""
        return self._complete[page].identity

    def allocate(self) -> PageId:
        """A page of unknown content with one reference; the stalest cached page gives its place when none is free.

        Raises OutOfPagesError when every page is held.
        """
        if self._free:
            page = self._free.pop()
        elif self._cached:
            page, _ = self._cached.popitem(last=False)
            del self._by_identity[self._complete.pop(page).identity]
        else:
            raise OutOfPagesError(f"All {self.num_pages} KV pages are in use; shorten or end a conversation.")
        self._references[page] = 1
        return page

    def complete(self, page: PageId, parent: Identity, token_ids: Sequence[int]) -> Identity:
        """Give a held page its identity. When another page already has it, that one stays the page of record."""
        tokens = tuple(token_ids)
        if len(tokens) != self.page_size:
            raise ValueError(f"a complete page has {self.page_size} tokens, not {len(tokens)}")
        identity = chain(parent, tokens)
        if identity not in self._by_identity:
            self.num_changes += 1
            self._by_identity[identity] = page
            self._complete[page] = _Complete(identity, tokens)
        return identity

    def release(self, pages: Sequence[PageId]) -> None:
        """Drop one reference of each page of a chain, given head first."""
        self.num_changes += 1
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

    def check_conservation(self) -> None:
        """Raise AssertionError unless every page is exactly one of free, held and cached."""
        held = {page for page, count in enumerate(self._references) if count}
        free, cached = set(self._free), set(self._cached)
        if len(free) != len(self._free) or len(held) + len(free) + len(cached) != self.num_pages:
            raise AssertionError(
                f"{len(held)} held + {len(free)} free + {len(cached)} cached != {self.num_pages} pages"
            )
        if held & free or held & cached or free & cached or not cached <= set(self._complete):
            raise AssertionError("a page is in two states at once")
