"""Selection: branch and bound gives what scoring every page gives, and the scores are what they claim to be."""

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.engine.kernels.bounds import PageBounds, page_bounds_torch, read_boxes, read_sketches, section_bounds_torch
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.select import (
    CANDIDATES,
    SHARE_AT_EDGE,
    SelectionLimits,
    SelectionScratch,
    select_pages_torch,
)
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout

ANGLES, PAGE_SIZE, SCALE = 300, 4, 0.3


class Pages:
    """Pages of a sequence, sections of which differ by `spread`; `twins` of them are copies of others."""

    def __init__(self, kv_heads: int, dim: int, count: int, spread: float, codec: str, twins: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        stored, self.layout = (
            PageLayout(CODECS[codec], kv_heads, PAGE_SIZE, dim),
            BoundsLayout(kv_heads, PAGE_SIZE, dim),
        )
        of_section = torch.randn(count // SECTION_PAGES + 1, 2, kv_heads, PAGE_SIZE, dim, generator=generator) * 3
        kv = of_section.repeat_interleave(SECTION_PAGES, 0)[:count]
        kv = kv + spread * torch.randn(kv.shape, generator=generator)
        copies, originals = torch.randint(count, (2, twins), generator=generator)
        kv[copies] = kv[originals]
        order = torch.randperm(count, generator=generator)  # page ids are in disorder, the sequence is not
        self.encoded = encode_pages_torch(kv[order], stored)
        self.bounds = PageBounds.split(page_bounds_torch(self.encoded, stored, self.layout), self.layout)
        self.ids = torch.argsort(order).int()
        self.sections = section_bounds_torch(self.bounds.boxes, self.layout, self.ids)
        frequencies = 0.7 ** torch.arange(dim // 2, dtype=torch.float64)
        angles = torch.outer(torch.arange(ANGLES, dtype=torch.float64), frequencies)
        self.cos, self.sin = angles.cos().float(), angles.sin().float()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 5),
    dim=st.sampled_from([8, 24, 32, 64]),
    count=st.integers(1, 150),
    spread=st.sampled_from([0.0, 0.01, 0.3, 3.0]),
    codec=st.sampled_from(sorted(CODECS)),
    is_shared=st.booleans(),
    has_twins=st.booleans(),
)
def test_branch_and_bound_is_brute_force(
    native_kernels: Kernels,
    seed: int,
    kv_heads: int,
    group: int,
    dim: int,
    count: int,
    spread: float,
    codec: str,
    is_shared: bool,
    has_twins: bool,
) -> None:
    pick = random.Random(seed)
    pages = Pages(kv_heads, dim, count, spread, codec, count // 4 if has_twins else 0, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    rows, heads = pick.choice([1, 3]), kv_heads * group
    q = torch.randn(rows, pick.choice([1, 2]), heads, dim, generator=generator) * pick.choice([0.0, 0.3, 2.0])
    distances = torch.randint(ANGLES, (1,) if is_shared else (rows, count), generator=generator).int()
    read = torch.randn(q.shape[:3], generator=generator) * 3 if pick.random() < 0.7 else None
    num_pages = torch.tensor([count, *(pick.randint(0, count) for _ in range(rows - 1))]).int()
    limits = SelectionLimits(pick.randint(0, 6), pick.choice([1, 5, 20, 200]), pick.choice([0.3, 0.9, 1.0]))
    given = pages.layout, pages.ids, num_pages, distances, pages.cos, pages.sin, SCALE
    looked_at = torch.full((2, rows, CANDIDATES * limits.cap), 7).int()
    for sections, others in ((pages.sections, read), (None, torch.zeros(q.shape[:3]) if read is None else read)):
        if sections is None and count > CANDIDATES * limits.cap:
            continue
        arguments = q, pages.bounds, sections, *given, others, limits, SelectionScratch()
        expected = select_pages_torch(*arguments, looked_at[0])
        got = native_kernels.select_pages(*arguments, looked_at[1])
        assert torch.equal(got[1], expected[1])
        assert torch.equal(got[0], expected[0])
        assert torch.equal(*looked_at)


def test_sections_that_cannot_matter_are_left_out(native_kernels: Kernels) -> None:
    count = 60 * SECTION_PAGES
    pages, scratch = Pages(2, 32, count, 0.01, "f32", 0, 5), SelectionScratch()
    q = torch.randn(1, 1, 4, 32, generator=torch.Generator().manual_seed(1))
    arguments = pages.ids, torch.tensor([count]).int(), torch.tensor([0]).int(), pages.cos, pages.sin, SCALE, None
    limits = SelectionLimits(4, 4, 1.0)
    got = native_kernels.select_pages(q, pages.bounds, pages.sections, pages.layout, *arguments, limits, scratch)
    assert scratch.scored <= count / 2
    expected = select_pages_torch(q, pages.bounds, pages.sections, pages.layout, *arguments, limits, scratch)
    assert scratch.scored == count
    assert torch.equal(got[0], expected[0])


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("with_read", [True, False])
def test_pages_are_chosen_by_their_share_of_the_attention(kernels: Kernels, with_read: bool, queries: int) -> None:
    """Against float64: few enough pages that none is estimated by its section, and all are looked at closely."""
    count, heads = SECTION_PAGES - 1, 6
    for seed in range(12):
        pages, generator = Pages(2, 24, count, 1.0, "k8v8", 0, seed), torch.Generator().manual_seed(seed)
        q, read = (torch.randn(1, queries, heads, *dim, generator=generator) for dim in ((24,), ()))
        distances = torch.randint(ANGLES, (1, count), generator=generator).int()
        limits = SelectionLimits(2, count, 0.8)
        got, counts = kernels.select_pages(
            q, pages.bounds, pages.sections, pages.layout, pages.ids, torch.tensor([count]).int(), distances,
            pages.cos, pages.sin, SCALE, read if with_read else None, limits, SelectionScratch(),
        )  # fmt: skip
        of_queries = zip(*(_scores(each, pages, distances[0]) for each in q[0]), strict=True)
        centre, reach, keys = (torch.cat(part, dim=1) for part in of_queries)  # of all heads of all queries
        masses = torch.exp(keys).sum(-1)  # [p, heads]
        far = torch.maximum((torch.exp(centre + reach) * SHARE_AT_EDGE * PAGE_SIZE).sum(0), masses.sum(0))
        near = torch.exp(read[0].double().flatten()) if with_read else torch.zeros(queries * heads).double()
        weights = (masses / (far + near)).sum(1)
        chosen = got[0, : int(counts[0])].long()
        assert torch.equal(chosen, chosen.sort().values)
        rest = torch.ones(count, dtype=torch.bool).index_fill_(0, chosen, False)
        assert not rest.any() or weights[chosen].min() >= weights[rest].max() - 0.03 * queries * heads / count
        covered = float((weights[chosen].sum() + (near / (far + near)).sum()) / (queries * heads))
        assert len(chosen) == count or covered >= limits.mass_target - 0.02
        assert (
            len(chosen) == limits.floor
            or covered - float(weights[chosen].min()) / (queries * heads) <= limits.mass_target + 0.02
        )


def test_a_sketch_tells_where_a_key_is_that_its_box_hides(kernels: Kernels) -> None:
    """One page has a key that answers, all others have boxes in which there could be one: the page is found."""
    count, dim = 3 * SECTION_PAGES, 32
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        pages = Pages(1, dim, count, 1.0, "f32", 0, seed)
        wanted, q = seed * 5, torch.randn(1, 1, 1, dim, generator=generator).sign()
        # Keys in opposite corners, a channel at a time, make a box as large as that of a key along the query.
        kv = torch.zeros(count, 2, 1, PAGE_SIZE, dim)
        half = torch.ones(dim).index_fill_(0, torch.randperm(dim, generator=generator)[: dim // 2], -1.0)
        kv[:, 0, 0, :2] = torch.stack((half, -half)) * q[0, 0, 0]
        kv[wanted, 0, 0, 0], kv[wanted, 0, 0, 1] = q[0, 0, 0], -q[0, 0, 0]
        stored = PageLayout(CODECS["f32"], 1, PAGE_SIZE, dim)
        bounds = page_bounds_torch(encode_pages_torch(kv, stored), stored, pages.layout)
        bounds = PageBounds.split(bounds, pages.layout)
        ids = torch.arange(count).int()
        got, _ = kernels.select_pages(
            q, bounds, section_bounds_torch(bounds.boxes, pages.layout, ids), pages.layout, ids,
            torch.tensor([count]).int(),
            torch.tensor([0]).int(), pages.cos, pages.sin, SCALE, None,
            SelectionLimits(count // CANDIDATES, count // CANDIDATES, 1.0), SelectionScratch(),
        )  # fmt: skip
        assert wanted in got[0].tolist()
        assert (read_boxes(bounds.boxes, pages.layout)[1] >= 0.99).all()  # of every page


@pytest.mark.parametrize("queries", [1, 3])
def test_pages_that_are_looked_at_again_are_chosen_by_the_sketches_of_their_keys(
    kernels: Kernels, queries: int
) -> None:
    """Against float64: no box is weighed, and what is read anyway and these pages are all there is."""
    heads, limits = 6, SelectionLimits(5, 5, 1.0)
    count = CANDIDATES * limits.cap + SECTION_PAGES
    for seed in range(6):
        pages, generator = Pages(2, 24, count, 1.0, "k8v8", 0, seed), torch.Generator().manual_seed(seed)
        q, read = (torch.randn(1, queries, heads, *dim, generator=generator) for dim in ((24,), ()))
        distances, scratch = torch.randint(ANGLES, (1, count), generator=generator).int(), SelectionScratch()
        got, counts = kernels.select_pages(
            q, pages.bounds, None, pages.layout, pages.ids, torch.tensor([count]).int(), distances,
            pages.cos, pages.sin, SCALE, read, limits, scratch,
        )  # fmt: skip
        keys = torch.cat([_scores(each, pages, distances[0])[2] for each in q[0]], dim=1)
        masses = torch.exp(keys).sum(-1)  # [p, heads]
        weights = (masses / (masses.sum(0) + torch.exp(read[0].double().flatten()))).sum(1)
        assert (counts.tolist(), scratch.scored) == ([5], 0)
        chosen = got[0].long()
        assert torch.equal(chosen, chosen.sort().values)
        rest = torch.ones(count, dtype=torch.bool).index_fill_(0, chosen, False)
        assert weights[chosen].min() >= weights[rest].max() - 0.003 * queries * heads


def _scores(q: Tensor, pages: Pages, distances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scaled scores for each query head, float64: of a box's centre and how much higher the ellipsoid in it reaches [p,
    heads], and of its keys as their sketches have them [p, heads, tokens]."""
    boxes, sketches = (table[pages.ids.long()] for table in pages.bounds)
    lower, upper, _ = (x.double() for x in read_boxes(boxes, pages.layout))
    cos, sin = (x[distances.long()][:, None].double() for x in (pages.cos, pages.sin))
    first, second = q.double().chunk(2, dim=-1)
    rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    keys = lower[:, :, None] + (upper - lower)[:, :, None] * read_sketches(sketches, pages.layout).double() / 3
    centre, half_width, keys = (
        x.repeat_interleave(len(q) // pages.layout.num_kv_heads, 1)
        for x in ((lower + upper) / 2, (upper - lower) / 2, keys)
    )
    reach = ((rotated * half_width) ** 2).sum(-1).sqrt()
    return (rotated * centre).sum(-1) * SCALE, reach * SCALE, (rotated[:, :, None] * keys).sum(-1) * SCALE


def test_equal_pages_are_taken_in_order(kernels: Kernels) -> None:
    pages = Pages(1, 8, 2 * SECTION_PAGES + 5, 0.0, "f32", 0, 0)
    for table in pages.bounds:
        table[:] = table[0]
    sections = section_bounds_torch(pages.bounds.boxes, pages.layout, pages.ids)
    q, num_pages = torch.ones(2, 1, 2, 8), torch.tensor([len(pages.ids), 3]).int()
    got, counts = kernels.select_pages(
        q, pages.bounds, sections, pages.layout, pages.ids, num_pages, torch.tensor([7]).int(), pages.cos, pages.sin,
        SCALE, None, SelectionLimits(0, 6, 1.0), SelectionScratch(),
    )  # fmt: skip
    assert counts.tolist() == [6, 3]
    assert got.tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 0, 0]]


def test_without_pages_nothing_is_chosen(kernels: Kernels) -> None:
    pages = Pages(1, 8, 1, 0.0, "f32", 0, 0)
    got, counts = kernels.select_pages(
        torch.ones(1, 1, 2, 8), pages.bounds, pages.sections[:0], pages.layout, pages.ids[:0], torch.tensor([0]).int(),
        torch.tensor([7]).int(), pages.cos, pages.sin, SCALE, None, SelectionLimits(2, 4, 1.0), SelectionScratch(),
    )  # fmt: skip
    assert counts.tolist() == [0]
    assert got.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ids": torch.tensor([0, 9]).int()}, "no row in the table"),
        ({"num_pages": torch.tensor([3]).int()}, "number of pages"),
        ({"distances": torch.tensor([ANGLES]).int()}, "no row in cos"),
        ({"distances": torch.zeros(1, 5).int()}, "distances"),
        ({"q": torch.ones(1, 1, 3, 8)}, "query heads"),
        ({"sections": None}, "others are read anyway"),
        ({"sections": None, "read": torch.ones(1, 1, 4), "ids": torch.zeros(33).int()}, "if they are few"),
        ({"looked_at": torch.zeros(1, 15).int()}, "looked_at"),
    ],
)
def test_what_would_read_elsewhere_is_refused(native_kernels: Kernels, changed: dict[str, Any], message: str) -> None:
    pages = Pages(2, 8, 2, 0.0, "f32", 0, 0)
    given: dict[str, Any] = {
        "ids": pages.ids,
        "num_pages": torch.tensor([2]).int(),
        "distances": torch.tensor([7]).int(),
    }
    given |= {"q": torch.ones(1, 1, 4, 8), "sections": pages.sections, "read": None, "looked_at": None, **changed}
    with pytest.raises(ValueError, match=message):
        native_kernels.select_pages(
            given["q"], pages.bounds, given["sections"], pages.layout, given["ids"], given["num_pages"],
            given["distances"], pages.cos, pages.sin, SCALE, given["read"], SelectionLimits(2, 4, 1.0),
            SelectionScratch(), given["looked_at"],
        )  # fmt: skip
