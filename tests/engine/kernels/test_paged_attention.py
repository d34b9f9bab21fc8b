"""Attention over encoded pages and an unfinished one, against plain RoPE attention in float64 at absolute positions."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels, set_num_threads
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.kv_write import write_kv_torch
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.codec import CODECS, PageLayout

AngleTables = Callable[[int, int], tuple[Tensor, Tensor]]
DecodePage = Callable[[Tensor, PageLayout], tuple[Tensor, Tensor]]

MOST_TOKENS = 200

layouts = st.builds(
    PageLayout,
    codec=st.sampled_from(list(CODECS.values())),
    num_kv_heads=st.integers(1, 3),
    page_size=st.sampled_from([2, 4, 16, 32, 40]),
    head_dim=st.sampled_from([8, 24, 32, 64, 72, 80, 96, 128]),
)
every_codec = pytest.mark.parametrize("codec", list(CODECS))


@dataclass(frozen=True)
class Case:
    """Sequences in scattered pages; `keys` and `values` float64 [tokens, kv_heads, dim] are what their pages hold."""

    layout: PageLayout
    q: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    slab: Tensor
    tails: Tensor
    tables: tuple[Tensor, Tensor, Tensor]  # slots, distances, numbers of pages
    tail: tuple[Tensor, Tensor]  # slots, tokens
    angles: tuple[Tensor, Tensor]

    def empty_state(self) -> AttentionState:
        return AttentionState.empty(*self.q.shape)

    def attend(self, kernels: Kernels, scale: float = 0.125) -> Tensor:
        state = self.empty_state()
        kernels.attend_pages(self.q, self.slab, self.layout, *self.tables, *self.angles, scale, state, True)
        return kernels.attend_tail(self.q, self.tails, self.layout, *self.tail, *self.angles, scale, state)


MakeCase = Callable[..., Case]


@pytest.fixture(scope="module")
def make_case(angle_tables: AngleTables, decode_page: DecodePage) -> MakeCase:
    """make_case(layout, group, lengths): `group` query heads a KV head; the new token is the last of each length."""

    def make(layout: PageLayout, group: int, lengths: list[int]) -> Case:
        size, heads, dim, n = layout.page_size, layout.num_kv_heads, layout.head_dim, len(lengths)
        cos, sin = (table.float() for table in angle_tables(max(*lengths, size) + 1, dim))
        counts = [(length - 1) // size for length in lengths]
        most, total = max(1, *counts), sum(counts)
        shuffled = torch.randperm(total + 2).int()
        slab = torch.full((total + 2, layout.slot_bytes), 255, dtype=torch.uint8)  # unused slots: not a number
        dtype = torch.float32 if layout.codec.name == "f32" else torch.bfloat16
        tails = torch.full((n + 1, 2, heads, size, dim), torch.inf, dtype=dtype)
        slots, distances = torch.full((n, most), -1).int(), torch.full((n, most), -1).int()
        tail_slots = torch.randperm(n + 1)[:n].int()
        keys, values = [], []
        for i, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            slots[i, :count], shuffled = shuffled[:count], shuffled[count:]
            distances[i, :count] = (length - 1 - torch.arange(count) * size).int()
            pages = torch.full((count + 1, 2, heads, size, dim), torch.inf, dtype=dtype)
            k, v = torch.randn(2, length, heads, dim)
            positions = torch.arange(length)
            write_kv_torch(pages, positions // size, positions % size, k, v, cos[:size], sin[:size])
            tails[tail_slots[i]] = pages[count]
            slab[slots[i, :count].long()] = encode_pages_torch(pages[:count], layout)
            held = [decode_page(slab[slot], layout) for slot in slots[i, :count].long()]
            held.append((pages[count, 0].double(), pages[count, 1].double()))
            keys.append(torch.cat([page[0] for page in held], dim=1)[:, :length].transpose(0, 1))
            values.append(torch.cat([page[1] for page in held], dim=1)[:, :length].transpose(0, 1))
        tables = slots, distances, torch.tensor(counts).int()
        tail_tokens = torch.tensor([length - count * size for length, count in zip(lengths, counts, strict=True)])
        q = torch.randn(n, heads * group, dim)
        return Case(layout, q, keys, values, slab, tails, tables, (tail_slots, tail_tokens.int()), (cos, sin))

    return make


@pytest.fixture(scope="module")
def plain_attention(angle_tables: AngleTables) -> Callable[..., Tensor]:
    """plain_attention(case, i, scale): sequence i's last token over all of its tokens, float64 [heads, dim]."""

    def attend(case: Case, i: int, scale: float) -> Tensor:
        k, v, size = case.keys[i], case.values[i], case.layout.page_size
        tokens, kv_heads, dim = k.shape
        group = case.q.shape[1] // kv_heads
        cos, sin = angle_tables(tokens, dim)
        starts = torch.arange(tokens) // size * size  # keys carry the rotation of their offset already
        keys = _rotate(k, cos[starts], sin[starts]).repeat_interleave(group, dim=1)
        query = _rotate(case.q[i : i + 1].double(), cos[-1:], sin[-1:])[0]
        weights = torch.softmax(torch.einsum("hd,thd->ht", query, keys) * scale, dim=-1)
        return torch.einsum("ht,thd->hd", weights, v.repeat_interleave(group, dim=1))

    return attend


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@settings(max_examples=15, deadline=None)
@given(
    layout=layouts,
    group=st.integers(1, 9),
    lengths=st.lists(st.integers(1, MOST_TOKENS), min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
)
def test_equals_plain_attention(
    kernels: Kernels,
    make_case: MakeCase,
    plain_attention: Callable[..., Tensor],
    layout: PageLayout,
    group: int,
    lengths: list[int],
    seed: int,
) -> None:
    torch.manual_seed(seed)
    case, scale = make_case(layout, group, lengths), layout.head_dim**-0.5
    for i, row in enumerate(case.attend(kernels, scale)):
        torch.testing.assert_close(row.double(), plain_attention(case, i, scale), rtol=5e-5, atol=5e-5)


@every_codec
def test_nine_query_heads_over_three_kv_heads_far_away(
    kernels: Kernels, make_case: MakeCase, plain_attention: Callable[..., Tensor], codec: str
) -> None:
    torch.manual_seed(0)
    case = make_case(PageLayout(CODECS[codec], 3, 32, 64), 3, [1500, 31, 33])
    for i, row in enumerate(case.attend(kernels)):
        torch.testing.assert_close(row.double(), plain_attention(case, i, 0.125), rtol=1e-4, atol=1e-4)


@every_codec
def test_large_scores_do_not_overflow(
    kernels: Kernels, make_case: MakeCase, plain_attention: Callable[..., Tensor], codec: str
) -> None:
    torch.manual_seed(0)
    case = make_case(PageLayout(CODECS[codec], 1, 16, 64), 2, [190])
    got = case.attend(kernels, 30.0)
    torch.testing.assert_close(got[0].double(), plain_attention(case, 0, 30.0), rtol=2e-3, atol=2e-3)


@every_codec
def test_runs_of_64_pages_fold_to_the_same_bits(kernels: Kernels, make_case: MakeCase, codec: str) -> None:
    torch.manual_seed(0)
    layout = PageLayout(CODECS[codec], 3, 4, 32)
    case = make_case(layout, 3, [4 * 150 + 3, 4 * 64 + 1, 4 * 20 + 1, 2])
    whole, runs = case.empty_state(), case.empty_state()
    slots, distances, counts = case.tables
    kernels.attend_pages(case.q, case.slab, layout, *case.tables, *case.angles, 0.2, whole, True)
    for begin in range(0, slots.shape[1], 64):
        run = slice(begin, begin + 64)
        tables = slots[:, run].contiguous(), distances[:, run].contiguous(), (counts - begin).clamp(0, 64)
        kernels.attend_pages(case.q, case.slab, layout, *tables, *case.angles, 0.2, runs, begin == 0)
    assert torch.equal(whole.highest, runs.highest)
    assert torch.equal(whole.total, runs.total)
    assert torch.equal(whole.values, runs.values)
    results = [
        kernels.attend_tail(case.q, case.tails, layout, *case.tail, *case.angles, 0.2, state) for state in (whole, runs)
    ]
    assert torch.equal(*results)


@every_codec
def test_where_pages_lie_and_who_else_is_there_changes_nothing(
    native_kernels: Kernels, make_case: MakeCase, codec: str
) -> None:
    torch.manual_seed(0)
    layout = PageLayout(CODECS[codec], 3, 8, 32)
    case = make_case(layout, 3, [8 * 90 + 5, 300])
    together = case.attend(native_kernels)
    moved = torch.randperm(len(case.slab))
    slab, order = torch.empty_like(case.slab), moved.argsort()
    slab[order] = case.slab
    slots, distances, counts = case.tables
    for i in range(2):
        tables = order[slots[i : i + 1].long().clamp(min=0)].int(), distances[i : i + 1], counts[i : i + 1]
        tail = case.tail[0][i : i + 1], case.tail[1][i : i + 1]
        alone = Case(layout, case.q[i : i + 1], [], [], slab, case.tails, tables, tail, case.angles)
        assert torch.equal(alone.attend(native_kernels)[0], together[i])


@every_codec
def test_results_do_not_depend_on_the_number_of_threads(
    native_kernels: Kernels, make_case: MakeCase, codec: str, restore_threads: None
) -> None:
    torch.manual_seed(0)
    case = make_case(PageLayout(CODECS[codec], 3, 8, 64), 3, [200, 150])
    results = []
    for threads in (1, 2, 5):
        set_num_threads(threads)
        results.append(case.attend(native_kernels))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    ("table", "value", "message"),
    [
        (0, 99, "a slot is not in the slab"),
        (1, 999, "a position has no row"),
        (2, 9, "number of pages"),
        (2, -1, "number of pages"),
    ],
)
def test_pages_out_of_range_are_refused(
    native_kernels: Kernels, make_case: MakeCase, table: int, value: int, message: str
) -> None:
    case = make_case(PageLayout(CODECS["k8v4"], 1, 32, 8), 1, [60])
    case.tables[table].view(-1)[0] = value
    with pytest.raises(ValueError, match=message):
        case.attend(native_kernels)


@pytest.mark.parametrize(("table", "value", "message"), [(0, 2, "slab"), (1, 33, "tail tokens"), (1, 0, "tail tokens")])
def test_tails_out_of_range_are_refused(
    native_kernels: Kernels, make_case: MakeCase, table: int, value: int, message: str
) -> None:
    case = make_case(PageLayout(CODECS["k8v4"], 1, 32, 8), 1, [60])
    case.tail[table][0] = value
    with pytest.raises(ValueError, match=message):
        case.attend(native_kernels)


def test_a_state_of_another_shape_is_refused(native_kernels: Kernels, make_case: MakeCase) -> None:
    case = make_case(PageLayout(CODECS["k8v4"], 1, 32, 8), 2, [60])
    state = AttentionState.empty(1, 1, 8)
    with pytest.raises(ValueError, match=r"state\.highest of shape \[1, 2\]"):
        native_kernels.attend_pages(case.q, case.slab, case.layout, *case.tables, *case.angles, 1.0, state, True)
