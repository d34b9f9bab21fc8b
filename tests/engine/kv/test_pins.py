"""Pinned owners: on the device and in RAM their pages give way after all others, and nobody runs out of room for it."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from octavo.engine.config import AttentionConfig
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.kv.device_tier import DeviceTier
from octavo.engine.kv.host_tier import HostTier
from octavo.engine.kv.pages import PageTable
from octavo.engine.kv.pools import NOWHERE, DevicePool, HostPool, RowState
from octavo.engine.kv.residency import Residency

RANDOM = random.Random(4)
DOCUMENT, *OTHERS = [[RANDOM.randrange(320) for _ in range(161)] for _ in range(7)]
FEW = AttentionConfig(dense_limit=96, window=64, floor=32, cap=64, mass_target=0.9)
OWNERS = ("ann", "bob", "document:1", "document:2")
LAYERS, PAGE = 3, 8

Tiered = Callable[..., Any]
Store = Callable[..., Any]


class Model:
    """The tiers' bookkeeping beside a plain model of it: what lies where, and whose it is."""

    def __init__(self, seed: int) -> None:
        layout = PageLayout(CODECS["k8v4"], 1, PAGE, 32)
        device = DevicePool(layout, LAYERS, 7 * LAYERS + 1, 2, 1, torch.float32, "cpu")
        host = HostPool(6, LAYERS, layout.slot_bytes, pinned=False)
        self.table = PageTable(PAGE, b"root")
        self.residency = Residency(self.table, device, host, None)
        self.device, self.host = DeviceTier(self.residency), HostTier(self.residency, None, keeps=True)
        self.random = random.Random(seed)
        self.owners: dict[int, set[str]] = {}
        self.pinned: frozenset[str] = frozenset()

    def add(self) -> None:
        """A complete page that the store has, and nobody nearer."""
        number, owner = len(self.owners), self.random.choice(OWNERS)
        page = self.table.allocate()
        self.residency.grow()
        self.table.complete(page, b"root", range(number, number + PAGE), "prefill")
        self.own(page, owner)
        self.residency.stored[page] = True

    def own(self, page: int, owner: str) -> None:
        record = self.table.record_of(page)
        assert record is not None
        record.owners.add(owner)
        self.owners.setdefault(page, set()).add(owner)
        self.residency.owners_changed([page])

    def is_pinned(self, page: int) -> bool:
        return bool(self.owners[page] & self.pinned)

    def slots(self) -> set[tuple[int, int]]:
        return {(int(layer), int(page)) for layer, page in np.argwhere(self.residency.device.slots != NOWHERE)}

    def rows(self) -> set[int]:
        return set(np.flatnonzero(self.residency.host.rows != NOWHERE).tolist())

    def begin_step(self) -> None:
        chosen = self.random.sample(sorted(self.owners), min(2, len(self.owners)))
        self.residency.begin_step(np.array(sorted(chosen), dtype=np.int64))

    def check_device(self) -> None:
        """Make room, and see that the right ones went."""
        count, for_reading = self.random.randrange(1, 9), self.random.random() < 0.4
        before, free = self.slots(), self.residency.device.num_free
        got = self.device.make_room(count, for_reading=for_reading)
        left = self.slots()
        gone = before - left
        may_go = {key for key in before if not self.residency.in_step[key[1]]}
        pinned = {key for key in may_go if self.is_pinned(key[1])}
        allowed = len(may_go - pinned) if for_reading else len(may_go)
        assert gone <= may_go
        assert len(gone) == min(max(count - free, 0), allowed)
        assert got == min(count, free + len(gone))
        if gone & pinned:
            assert not for_reading
            assert not (may_go - pinned) & left
        page = self.random.choice(sorted(self.owners))
        missing = np.flatnonzero(self.residency.device.slots[:, page] == NOWHERE)[:got]
        self.residency.device.place(missing, np.full(len(missing), page))

    def check_host(self) -> None:
        """Read a page back into a row, if there is one for it."""
        page = self.random.choice(sorted(set(self.owners) - self.rows()))
        before, free = self.rows(), self.residency.host.num_free
        row = self.host.spare_row(page)
        gone = before - self.rows()
        may_go = {other for other in before if not self.residency.in_step[other]}
        pinned = {other for other in may_go if self.is_pinned(other)}
        assert (row is not None) == bool(free or may_go - pinned or (pinned and self.is_pinned(page)))
        assert gone <= may_go
        assert len(gone) == (row is not None and not free)
        if gone & pinned:
            assert self.is_pinned(page)
            assert not may_go - pinned
        if row is not None:
            self.residency.host.state[self.residency.host.rows[page]] = RowState.CLEAN


@pytest.mark.parametrize("seed", range(12))
def test_pinned_pages_give_way_last_as_in_a_plain_model(seed: int) -> None:
    model = Model(seed)
    for _ in range(12):
        model.add()
    for _ in range(400):
        roll = model.random.random()
        if roll < 0.05:
            model.add()
        elif roll < 0.15:
            model.own(model.random.choice(sorted(model.owners)), model.random.choice(OWNERS))
        elif roll < 0.25:
            model.pinned = frozenset(model.random.sample(OWNERS, model.random.randrange(4)))
            model.residency.pin(model.pinned)
        elif roll < 0.5:
            model.begin_step()
        elif roll < 0.8:
            model.check_device()
        else:
            model.check_host()
        known = [model.is_pinned(page) for page in sorted(model.owners)]
        assert model.residency.pinned[sorted(model.owners)].tolist() == known
    model.residency.device.check_conservation()
    model.residency.host.check_conservation()


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("attention", [AttentionConfig(), FEW])
def test_an_open_document_stays_near_while_others_come_and_go(
    tiered: Tiered, memory_store: Store, attention: AttentionConfig, is_pinned: bool
) -> None:
    engine = tiered(46, 24, memory_store(), attention=attention)
    store = engine.engine.cache._store
    if is_pinned:
        store.pins.add("document:1")
    first = engine.answer(DOCUMENT, owner="document:1")
    for number, other in enumerate(OTHERS):
        engine.answer(other, owner=f"conversation {number}")
        engine.engine.cache.rest({"document:1"})
    engine.engine.cache.tiers.drain()

    again = engine.answer(DOCUMENT, owner="document:1")

    found = again.metrics
    assert (found.reused_disk == 0 and found.reused_device > 0) is is_pinned
    assert again.tokens == first.tokens
    engine.settle()


def test_everybody_finishes_where_more_is_pinned_than_fits(tiered: Tiered, memory_store: Store) -> None:
    expected = [tiered().answer(prompt).tokens for prompt in OTHERS]
    engine = tiered(6, 8, memory_store())
    engine.engine.cache.kept_near = frozenset(f"conversation {number}" for number in range(len(OTHERS)))

    for _ in range(2):
        for number, prompt in enumerate(OTHERS):
            assert engine.answer(prompt, owner=f"conversation {number}").tokens == expected[number]

    engine.settle()


def test_a_pin_ends_with_its_owner_or_when_it_is_taken_back(tiered: Tiered, memory_store: Store) -> None:
    engine = tiered(40, 40, memory_store())
    cache = engine.engine.cache
    store, pinned = cache._store, lambda: int(cache.tiers._residency.pinned.sum())
    engine.answer(DOCUMENT, owner="document:1")
    engine.answer(DOCUMENT, owner="ann")  # the same pages
    store.pins.add("document:1")
    engine.answer(OTHERS[0], owner="ann")
    assert pinned() == len(cache.table.owned_by("document:1")) > 0

    engine.engine.forget("document:1")
    assert pinned() == 0

    cache.kept_near = frozenset({"ann"})
    engine.answer(OTHERS[1], owner="bob")
    assert pinned() == len(cache.table.owned_by("ann")) > 0
    cache.kept_near = frozenset()
    engine.answer(OTHERS[2], owner="bob")
    assert pinned() == 0
    engine.settle()
