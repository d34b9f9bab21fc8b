"""The KV cache as the scheduler sees it: open a sequence, let it grow, close it, and find its pages again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

import numpy as np
import torch

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.config import EngineConfig
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.kv.far_pages import BoundsTable, FarPages
from octavo.engine.kv.identity import root
from octavo.engine.kv.pages import Identity, Origin, PageId, PageTable
from octavo.engine.kv.pools import DevicePool, HostPool
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.kv.sizes import num_records, num_rows, num_slots
from octavo.engine.kv.store import PageSpace, PageStore, StoredPage
from octavo.engine.kv.tiers import Tiers
from octavo.engine.model.spec import ModelSpec

_LOOK_AHEAD = 64  # pages that the store is asked for at once


class KvCache:
    """Pages and their places under byte budgets, allocated when the engine starts."""

    def __init__(
        self,
        spec: ModelSpec,
        config: EngineConfig,
        kernels: Kernels,
        fingerprint: str,
        device: str,
        store: PageStore | None = None,
    ) -> None:
        self.layout = PageLayout(CODECS[config.kv_codec], spec.num_kv_heads, config.page_size, spec.head_dim)
        self.page_size = config.page_size
        self.page_bytes = spec.num_layers * self.layout.slot_bytes
        self.plan = ReadingPlan.of(spec, config)
        self._kernels = kernels
        self._store = store
        self._space: PageSpace | None = None
        writes = store is not None and store.writable
        rows = num_rows(config, self.page_bytes, writes=writes)
        device_pool = self._device_pool(spec, config, device, has_lower_tier=rows > 0 or store is not None)
        boxes = BoundsLayout(spec.num_kv_heads, config.page_size, spec.head_dim) if self.plan.is_sparse else None
        records = num_records(self.layout, spec.num_layers, boxes)
        host = HostPool(rows, records, self.layout.slot_bytes, pinned=device.startswith("cuda"))
        self.device_pages = device_pool.num_slots // spec.num_layers
        identity, settings = root(spec, config, self.plan, fingerprint)
        if store is not None:
            self._space = store.open_space(identity, settings, records, self.layout.slot_bytes, config.page_size)
        lowest = self._space.max_pages if writes and self._space is not None else rows
        self.num_pages = max(self.device_pages, lowest)
        bounds = None
        if boxes is not None:
            # A chunk's pages get their ids before others give theirs up.
            spare = config.prefill_chunk // config.page_size + config.max_sequences
            longest = self.num_pages_for(config.context or spec.context_length)
            room = min(longest, self.num_pages) + spare
            bounds = BoundsTable(boxes, self.layout, spec.num_layers, room, kernels, device)
        self.table = PageTable(config.page_size, identity)
        self.tiers = Tiers(
            self.table, device_pool, host, self._space, bounds, writes=writes, keeps_host=config.host_bytes > 0
        )
        self.num_tails = config.max_sequences
        self._free_tails = list(range(config.max_sequences - 1, -1, -1))
        self.kept_near: frozenset[str] = frozenset()  # owners that are pinned besides those in the store

    @property
    def pool(self) -> DevicePool:
        return self.tiers.device

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.pool.nbytes

    @property
    def used_bytes(self) -> int:
        """Bytes of the device's slots that hold a page."""
        return (self.pool.num_slots - self.pool.num_free) * self.layout.slot_bytes

    @property
    def num_free_tails(self) -> int:
        """Unfinished pages that may still be begun."""
        return len(self._free_tails)

    @property
    def num_tokens(self) -> int:
        """Tokens that all tiers together can hold at a time."""
        return self.num_pages * self.page_size

    def num_pages_for(self, num_tokens: int) -> int:
        return num_tokens // self.page_size

    # A sequence's life

    def open(self, token_ids: Sequence[int], owner: str) -> SequencePages:
        """Start a sequence on the pages its prefix already has. The last token is always left to compute."""
        self._pin()
        pages = SequencePages(owner, self._free_tails.pop())
        self.extend(pages, token_ids)
        return pages

    def extend(self, pages: SequencePages, token_ids: Sequence[int]) -> None:
        """Go on with pages that are there already: in this process, or in the store."""
        remaining = token_ids[pages.num_complete * self.page_size : -1]
        found = self.table.match(remaining, self._identity(pages))
        self._join(pages, found)
        self._own(found, pages.owner)
        if self._space is not None:
            self._extend_from_store(pages, remaining[len(found) * self.page_size :])

    def begin_step(self, sequences: Sequence[SequencePages]) -> None:
        """Bring near what these sequences will certainly read. Raises PageLostError."""
        ids: list[PageId] = []
        for pages in sequences:
            if self.plan.is_dense(len(pages.page_ids) * self.page_size):
                ids += pages.page_ids
                continue
            ids += pages.page_ids[:1] + pages.page_ids[self.plan.first_of_window(len(pages.page_ids)) :]
            self._follow(pages)
        self.tiers.begin_step(np.unique(np.asarray(ids, dtype=np.int64)))

    def begin_chunk(self, pages: SequencePages, num_pages: int) -> None:
        """Take the pages that a chunk will complete. Raises OutOfPagesError."""
        new = [self.table.allocate() for _ in range(num_pages)]
        pages.page_ids += new
        if new:
            self.tiers.make_places(new)

    def publish(self, pages: SequencePages, token_ids: Sequence[int], num_written: int) -> None:
        """Give an identity to every page that `num_written` tokens have filled; from then on it is immutable."""
        origin: Origin = "prefill"
        if num_written // self.page_size > len(pages.page_ids):
            origin = "decode"
            self._encode_tail(pages)
        completed: list[PageId] = []
        for index in range(pages.num_complete, len(pages.page_ids)):
            own = pages.page_ids[index]
            tokens = token_ids[index * self.page_size : (index + 1) * self.page_size]
            identity, page = self.table.complete(own, self._identity(pages), tokens, origin)
            pages.identities.append(identity)
            if page != own:
                pages.page_ids[index] = page
                self.tiers.freed(self.table.release([own]))
            elif self.table.record_of(own) is not None:
                completed.append(own)
            self._own([page], pages.owner)
        self.tiers.completed(completed)

    def truncate(self, pages: SequencePages, num_pages: int) -> None:
        """Give back all but the first `num_pages` complete pages."""
        dropped = pages.page_ids[num_pages:]
        del pages.page_ids[num_pages:], pages.identities[num_pages:]
        self._release(dropped)

    def close(self, pages: SequencePages) -> None:
        """Give every page back; complete ones stay to be found again."""
        self.truncate(pages, 0)
        self._free_tails.append(pages.tail)

    # All pages

    def forget(self, owner: str) -> int:
        """Drop the pages that only `owner` owns from every tier; returns the bytes freed in the store.

        No sequence of that owner may be open.
        """
        self.tiers.drain()
        for page in self.table.owned_by(owner):
            record = self.table.record_of(page)
            assert record is not None
            record.owners.discard(owner)
            self.tiers.owners_changed([page])
            if not record.owners:
                self.tiers.discard(page)
        return self._store.forget(owner) if self._store is not None else 0

    def rest(self, owners: Collection[str]) -> int:
        """Give up the device's copies of pages that nobody but `owners` owns; returns the bytes that became free there.

        Pages of open sequences stay, and so do those that no tier below has, and pinned ones.
        """
        self._pin()
        self.tiers.collect()
        resting: list[PageId] = []
        for page in self.table.stalest():
            record = self.table.record_of(page)
            if record is not None and record.owners and record.owners <= set(owners):
                resting.append(page)
        return self.tiers.give_up(np.array(resting, dtype=np.int64)) * self.layout.slot_bytes

    def find_stored(self, identities: Sequence[Identity]) -> Sequence[StoredPage | None]:
        """Which of these pages the store has."""
        return self._space.find(identities) if self._space is not None else [None] * len(identities)

    def shutdown(self) -> None:
        """Write down what waits. The cache cannot be used after this."""
        self.tiers.close()

    def check_conservation(self) -> None:
        """Raise AssertionError unless pages, slots and rows add up to what was allocated."""
        self.table.check_conservation()
        self.tiers.check_conservation()

    # Parts of the above

    def _device_pool(self, spec: ModelSpec, config: EngineConfig, device: str, *, has_lower_tier: bool) -> DevicePool:
        dtype = torch.float32 if config.kv_codec == "f32" else torch.bfloat16
        slots, stream = num_slots(spec, config, self.layout, dtype.itemsize, has_lower_tier=has_lower_tier)
        return DevicePool(self.layout, spec.num_layers, slots, stream, config.max_sequences, dtype, device)

    def _pin(self) -> None:
        """Take note of who is pinned: that may have changed at any time."""
        self.tiers.pin(self.kept_near | (self._store.pinned() if self._store is not None else frozenset()))

    def _follow(self, pages: SequencePages) -> None:
        """Keep the sections of a sequence's pages up to date."""
        bounds = self.tiers.bounds
        assert bounds is not None
        if pages.far is None:
            pages.far = FarPages.none(self.pool.num_layers, bounds.layout, self.pool.slab.device)
        pages.far.follow(pages.page_ids, bounds, self._kernels)

    def _identity(self, pages: SequencePages) -> Identity:
        """What stands before the sequence's next page."""
        return pages.identities[-1] if pages.identities else self.table.root

    def _extend_from_store(self, pages: SequencePages, token_ids: Sequence[int]) -> None:
        """Go on with what the store has of the chain; a page in between may be known here already."""
        chain = self.table.chain_of(self._identity(pages), token_ids)
        while run := list(islice(chain, _LOOK_AHEAD)):
            found = self._adopt(run, self._identity(pages))
            self._join(pages, found)
            self._own(found, pages.owner)
            if len(found) < len(run):
                return

    def _adopt(self, run: Sequence[tuple[Identity, tuple[int, ...]]], parent: Identity) -> list[PageId]:
        """The pages of a chain after `parent`, as far as this process or the store has them; each gains a reference."""
        assert self._space is not None
        found: list[PageId] = []
        adopted: list[PageId] = []
        for (identity, tokens), stored in zip(run, self._space.find([each for each, _ in run]), strict=True):
            page = self.table.match(tokens, parent) if self.table.find(identity) >= 0 else []
            if not page and stored is not None and stored.token_ids == tokens:
                page = [self.table.adopt(stored, parent)]
                adopted += page
            if not page:
                break
            found += page
            parent = identity
        usable = self.tiers.adopt(adopted)
        if usable < len(adopted):
            self.table.disown(adopted[usable])
            first = found.index(adopted[usable])
            self._release(found[first:])
            del found[first:]
        return found

    def _release(self, pages: Sequence[PageId]) -> None:
        """Drop one reference of each page of a chain, head first."""
        self.tiers.freed(self.table.release(pages))
        self.tiers.released(pages)

    def _join(self, pages: SequencePages, found: Sequence[PageId]) -> None:
        """Complete pages, in order, become the sequence's next ones."""
        for page in found:
            record = self.table.record_of(page)
            assert record is not None
            pages.reused[self.tiers.tier_of(page)] += 1
            pages.identities.append(record.identity)
        pages.page_ids += found

    def _own(self, pages: Sequence[PageId], owner: str) -> None:
        """Note, here and in the store, that these pages are `owner`'s too."""
        stored: list[Identity] = []
        for page in pages:
            record = self.table.record_of(page)
            if record is None or owner in record.owners:
                continue
            record.owners.add(owner)
            self.tiers.owners_changed([page])
            if record.stored is not None:
                stored.append(record.identity)
        if stored and self._space is not None:
            self._space.add_owner(stored, owner)

    def _encode_tail(self, pages: SequencePages) -> None:
        """The unfinished page is full: it becomes a page like any other."""
        page = self.table.allocate()
        pages.page_ids.append(page)
        self.tiers.make_places([page])
        encoded = self._kernels.encode_pages(self.pool.tail_of(pages.tail), self.layout)
        for layer in range(self.pool.num_layers):
            self.tiers.put(layer, [page], encoded[layer : layer + 1])
