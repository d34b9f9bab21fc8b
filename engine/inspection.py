"""The pages of one conversation as they are now, layer by layer: frozen arrays that a person can be shown.

Only the engine's thread may look. What it sees are counters that exist for eviction, so that looking changes nothing.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence as Row
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octavo.engine.events import PagesRead
from octavo.engine.kv.pools import NOWHERE, Ids

if TYPE_CHECKING:
    from octavo.engine.engine import Engine
    from octavo.engine.kv.cache import KvCache
    from octavo.engine.kv.sequence_pages import SequencePages
    from octavo.engine.sequence import Sequence

ABSENT, DISK, HOST, DEVICE, UNFINISHED = range(5)
"""The nearest place of a layer of a page, farther ones being smaller; ABSENT would be computed again, and UNFINISHED is
the page being filled, which is always on the device.
"""

_MOST_REMEMBERED = 8
_MOST_CHOSEN = 64


@dataclass(frozen=True, slots=True, eq=False)
class PageMap:
    """Pages of a conversation, in order; arrays are `[num_layers, num_pages]`.

    `tier` uint8 is the nearest place. `age` int64 counts page reads since a layer was read last, -1 where that is not
    known; `selected` int64 how often it was selected within the window that eviction looks at; `worth` float32 what
    eviction would give for it, from 0 to 1. `chosen` marks what each layer selected for the newest token. Complete
    pages have `key_bits` and `value_bits`.

    Where there are `tail_tokens`, the last page is unfinished: so many of its tokens are kept as they were computed, in
    `tail_bits` a number, while the request runs, and are ABSENT once it has ended. `num_unread` of the `num_tokens`, on
    no page, have not been computed.
    """

    num_tokens: int
    page_size: int
    tier: NDArray[np.uint8]
    age: NDArray[np.int64]
    selected: NDArray[np.int64]
    worth: NDArray[np.float32]
    chosen: NDArray[np.bool_]
    key_bits: int
    value_bits: int
    tail_bits: int
    codec: str
    is_running: bool
    tail_tokens: int = 0
    num_unread: int = 0

    @property
    def num_pages(self) -> int:
        return int(self.tier.shape[1])

    @property
    def num_complete(self) -> int:
        return self.num_pages - bool(self.tail_tokens)

    @property
    def num_layers(self) -> int:
        return int(self.tier.shape[0])


@dataclass(frozen=True, slots=True)
class PageDetail:
    """One page: its tokens, identity in hex, owners, and who computed it; "" what is not known or, of an unfinished
    page, not there.
    """

    index: int
    token_ids: tuple[int, ...]
    identity: str
    owners: tuple[str, ...]
    origin: str


@dataclass(slots=True, eq=False)
class _Known:
    """The tokens and the identities of the complete pages of a request that has ended."""

    token_ids: array[int]
    identities: list[bytes]


class Inspection:
    """Remembers the newest request of some owners, so that their pages can be named after it ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def ended(self, sequence: Sequence) -> PagesRead | None:
        """What a request read, which is about to give its pages back; None if it never ran."""
        if sequence.pages is None:
            return None
        self._remember(sequence.owner, sequence.token_ids, list(sequence.pages.identities))
        return _pages_read(self._engine.cache, sequence, sequence.pages)

    def pages_read(self, request_id: int) -> tuple[int, int] | None:
        """Complete pages read for the newest token, by the layer that read the most, and all there are.

        None for a request that does not run.
        """
        sequence = next((each for each in self._engine.sequences if each.request_id == request_id), None)
        if sequence is None or sequence.pages is None:
            return None
        pages, plan = sequence.pages, self._engine.cache.plan
        total = len(pages.page_ids)
        if plan.is_dense(sequence.num_computed - 1):
            return total, total
        window = total - plan.first_of_window(total)
        selected = max((len(chosen) for chosen in pages.selected.values()), default=0)
        return min(1 + window + selected, total), total

    def know(self, owner: str, token_ids: Row[int]) -> None:
        """The tokens of a conversation that has not been asked about in this process."""
        table = self._engine.cache.table
        self._remember(owner, token_ids, [identity for identity, _ in table.chain_of(table.root, token_ids)])

    def num_known(self, token_ids: Row[int]) -> int:
        """Tokens at the start of a prompt whose complete pages are there, on any tier."""
        cache, known = self._engine.cache, 0
        chain = list(cache.table.chain_of(cache.table.root, token_ids))
        stored = cache.find_stored([identity for identity, _ in chain])
        for (identity, tokens), kept in zip(chain, stored, strict=True):
            here = cache.table.record_of(cache.table.find(identity))
            if tokens not in (here and here.token_ids, kept and kept.token_ids):
                break
            known += len(tokens)
        return known

    def forget(self, owner: str) -> None:
        self._known.pop(owner, None)

    def knows(self, owner: str) -> bool:
        return owner in self._known or self._running(owner) is not None

    def look(self, owner: str) -> PageMap | None:
        """The pages of an owner's running or newest request; None if there is none that is known."""
        running, known = self._running(owner), self._known.get(owner)
        cache = self._engine.cache
        if running is not None and running.pages is not None:
            ids: Ids = np.array(running.pages.page_ids, dtype=np.int64)
            chosen = _chosen(running, ids, cache.pool.num_layers)
            num_tokens, tail = len(running.token_ids), running.num_computed - len(ids) * cache.page_size
            found = _map(cache, ids, chosen, np.zeros(len(ids), np.bool_), num_tokens, tail, is_running=True)
            return replace(found, num_unread=num_tokens - running.num_computed)
        if known is None:
            return None
        ids = np.array([cache.table.find(identity) for identity in known.identities], dtype=np.int64)
        missing = np.flatnonzero(ids == NOWHERE)
        stored = np.zeros(len(ids), np.bool_)
        if missing.size:
            stored[missing] = [page is not None for page in cache.find_stored([known.identities[at] for at in missing])]
        chosen = np.zeros((cache.pool.num_layers, len(ids)), np.bool_)
        num_tokens = len(known.token_ids)
        rest = num_tokens - len(ids) * cache.page_size  # of more than a page most was never computed
        tail, unread = (rest, 0) if rest <= cache.page_size else (0, rest)
        found = _map(cache, ids, chosen, stored, num_tokens, tail, is_running=False)
        return replace(found, num_unread=unread)

    def detail(self, owner: str, index: int) -> PageDetail | None:
        """One page of what `look` gave; None if there is no such page any more."""
        running, known, table = self._running(owner), self._known.get(owner), self._engine.cache.table
        if running is not None and running.pages is not None:
            tokens: Row[int] = running.token_ids[: running.num_computed]
            identities = running.pages.identities
        elif known is not None:
            tokens, identities = known.token_ids, known.identities
        else:
            return None
        size = self._engine.cache.page_size
        if index == len(identities) and 0 < len(tokens) - index * size <= size:
            return PageDetail(index, tuple(tokens[index * size :]), "", (owner,), "")
        if not 0 <= index < len(identities):
            return None
        record = table.record_of(table.find(identities[index]))
        return PageDetail(
            index,
            tuple(tokens[index * size : (index + 1) * size]),
            identities[index].hex(),
            tuple(sorted(record.owners)) if record is not None else (),
            record.origin if record is not None and record.stored is None else "",
        )

    def _running(self, owner: str) -> Sequence | None:
        return next((each for each in self._engine.sequences if each.owner == owner and each.pages is not None), None)

    def _remember(self, owner: str, token_ids: Row[int], identities: list[bytes]) -> None:
        self._known.pop(owner, None)
        self._known[owner] = _Known(array("i", token_ids), identities)
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)


def _pages_read(cache: KvCache, sequence: Sequence, pages: SequencePages) -> PagesRead:
    ids: Ids = np.array(pages.page_ids, dtype=np.int64)
    on_device, on_host, _ = cache.tiers.places(ids)
    whole = on_device.all(axis=0)
    below = on_host & ~whole
    total, plan = len(ids), cache.plan
    most = np.argsort(-pages.reads, kind="stable")[: np.count_nonzero(pages.reads)]
    return PagesRead(
        total=total,
        page_size=cache.page_size,
        device=int(whole.sum()),
        host=int(below.sum()),
        disk=total - int((whole | below).sum()),
        dense=plan.is_dense(max(sequence.num_computed - 1, 0)),
        window=total - plan.first_of_window(total) if total else 0,
        num_chosen=len(most),
        chosen=tuple((int(place), int(pages.reads[place])) for place in most[:_MOST_CHOSEN]),
    )


def _chosen(sequence: Sequence, ids: Ids, num_layers: int) -> NDArray[np.bool_]:
    """What each layer of a running request selected for its newest token."""
    chosen = np.zeros((num_layers, len(ids)), np.bool_)
    for layer, pages in sequence.running_pages.selected.items():
        chosen[layer] = np.isin(ids, pages)
    return chosen


def _map(
    cache: KvCache,
    ids: Ids,
    chosen: NDArray[np.bool_],
    stored: NDArray[np.bool_],
    num_tokens: int,
    tail_tokens: int,
    *,
    is_running: bool,
) -> PageMap:
    """`stored` marks pages without an id that the store has."""
    tiers, codec, complete = cache.tiers, cache.layout.codec, len(ids)
    layers, here = np.arange(cache.pool.num_layers)[:, None], np.flatnonzero(ids != NOWHERE)
    shape = (cache.pool.num_layers, complete + bool(tail_tokens))
    tier = np.zeros(shape, np.uint8)
    tier[:, np.flatnonzero(stored)] = DISK
    age = np.full(shape, -1, np.int64)
    selected = np.zeros(shape, np.int64)
    worth = np.zeros(shape, np.float32)
    read = np.zeros(shape, np.bool_)
    read[:, :complete] = chosen
    if here.size:
        pages = ids[here]
        on_device, on_host, on_disk = tiers.places(pages)
        tier[:, here] = np.where(on_device, DEVICE, np.where(on_host, HOST, np.where(on_disk, DISK, ABSENT)))
        keys = cache.pool.key(layers, pages).ravel()
        ages, counts, worths = (column.reshape(shape[0], -1) for column in tiers.slot_policy.known(keys))
        age[:, here], selected[:, here], worth[:, here] = ages, counts, worths
    if is_running and tail_tokens:  # every token reads it, and it is never evicted
        tier[:, complete], age[:, complete], worth[:, complete], read[:, complete] = UNFINISHED, 0, 1.0, True
    return PageMap(
        num_tokens=num_tokens,
        page_size=cache.page_size,
        tier=tier,
        age=age,
        selected=selected,
        worth=worth,
        chosen=read,
        key_bits=codec.key_bits,
        value_bits=codec.value_bits,
        tail_bits=8 * cache.pool.tails.element_size(),
        codec=codec.name,
        is_running=is_running,
        tail_tokens=tail_tokens,
    )
