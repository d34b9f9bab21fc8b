"""Paged attention and the writing of pages, against plain RoPE attention in float64 with absolute positions."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels, set_num_threads
from octavo.engine.kernels.kv_write import write_kv_torch


@dataclass(frozen=True)
class Shape:
    kv_heads: int
    group: int  # query heads per KV head
    dim: int
    page_size: int
    lengths: tuple[int, ...]  # tokens of each sequence, the new one included


shapes = st.builds(
    Shape,
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 9),
    dim=st.sampled_from([8, 24, 64, 72, 80, 96, 128]),
    page_size=st.sampled_from([1, 4, 16, 32, 40]),
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=3).map(tuple),
)


def angle_tables(rows: int, dim: int) -> tuple[Tensor, Tensor]:
    """cos and sin, float64 [rows, dim / 2], of position times frequency."""
    frequencies = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE of x [tokens, heads, dim] at the tokens' own positions."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The last of k's positions attends to all of them: q [heads, dim], k and v [tokens, kv_heads, dim]."""
    tokens, kv_heads, dim = k.shape
    cos, sin = angle_tables(tokens, dim)
    group = q.shape[0] // kv_heads
    keys = rotate(k, cos, sin).repeat_interleave(group, dim=1)
    query = rotate(q[None], cos[-1:], sin[-1:])[0]
    weights = torch.softmax(torch.einsum("hd,thd->ht", query, keys) * scale, dim=-1)
    return torch.einsum("ht,thd->hd", weights, v.repeat_interleave(group, dim=1))


@dataclass(frozen=True)
class Case:
    """Sequences written to scattered pages, and the arguments of decode_attention for them."""

    q: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    slab: Tensor
    tables: tuple[Tensor, Tensor, Tensor, Tensor]
    angles: tuple[Tensor, Tensor]

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        return (self.q, self.slab, *self.tables, *self.angles)


def make_case(kernels: Kernels, shape: Shape, dtype: torch.dtype) -> Case:
    counts = [-(-length // shape.page_size) for length in shape.lengths]
    most, total = max(counts), sum(counts)
    shuffled = torch.randperm(total + 2).int()
    slab = torch.full((total + 2, 2, shape.kv_heads, shape.page_size, shape.dim), torch.nan, dtype=dtype)
    cos, sin = (table.float() for table in angle_tables(max(200, shape.page_size) + 1, shape.dim))
    n = len(counts)
    slots, distances = torch.full((n, most), -1).int(), torch.full((n, most), -1).int()
    keys, values = [], []
    for i, (length, count) in enumerate(zip(shape.lengths, counts, strict=True)):
        slots[i, :count], shuffled = shuffled[:count], shuffled[count:]
        starts = torch.arange(count) * shape.page_size
        distances[i, :count] = (length - 1 - starts).int()
        k, v = torch.randn(2, length, shape.kv_heads, shape.dim)
        positions = torch.arange(length)
        kernels.write_kv(
            slab,
            slots[i, positions // shape.page_size].contiguous(),
            (positions % shape.page_size).int(),
            k,
            v,
            cos[: shape.page_size],
            sin[: shape.page_size],
        )
        keys.append(k)
        values.append(v)
    tails = [length - (count - 1) * shape.page_size for length, count in zip(shape.lengths, counts, strict=True)]
    tables = (slots, distances, torch.tensor(counts).int(), torch.tensor(tails).int())
    q = torch.randn(n, shape.kv_heads * shape.group, shape.dim)
    return Case(q, keys, values, slab, tables, (cos, sin))


@settings(max_examples=25, deadline=None)
@given(shape=shapes, seed=st.integers(0, 2**31))
def test_equals_plain_attention(kernels: Kernels, shape: Shape, seed: int) -> None:
    torch.manual_seed(seed)
    case, scale = make_case(kernels, shape, torch.float32), shape.dim**-0.5
    got = kernels.decode_attention(*case.arguments, scale)
    for i, (k, v) in enumerate(zip(case.keys, case.values, strict=True)):
        expected = plain_attention(case.q[i].double(), k.double(), v.double(), scale)
        torch.testing.assert_close(got[i].double(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("lengths", [(1,), (33, 700, 128)])
def test_bfloat16_pages(kernels: Kernels, lengths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    shape = Shape(kv_heads=2, group=7, dim=64, page_size=32, lengths=lengths)
    angles = angle_tables(max(lengths) + 1, shape.dim)
    case = make_case(kernels, shape, torch.bfloat16)
    arguments = (*case.arguments[:-2], *(table.float() for table in angles))
    got = kernels.decode_attention(*arguments, 0.125)
    for i, (k, v) in enumerate(zip(case.keys, case.values, strict=True)):
        expected = plain_attention(case.q[i].double(), k.double(), v.double(), 0.125)
        torch.testing.assert_close(got[i].double(), expected, rtol=0.02, atol=0.02)


def test_large_scores_do_not_overflow(kernels: Kernels) -> None:
    torch.manual_seed(0)
    case = make_case(kernels, Shape(1, 2, 64, 16, (190,)), torch.float32)
    got = kernels.decode_attention(*case.arguments, 30.0)
    expected = plain_attention(case.q[0].double(), case.keys[0].double(), case.values[0].double(), 30.0)
    torch.testing.assert_close(got[0].double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [8, 64, 72, 128])
def test_writing_is_the_references_to_the_bit(native_kernels: Kernels, dtype: torch.dtype, dim: int) -> None:
    torch.manual_seed(0)
    slab = torch.randn(9, 2, 3, 16, dim).to(dtype)
    expected = slab.clone()
    places = torch.randperm(9 * 16)[:100]
    k, v = torch.randn(2, 100, 3, dim)
    v[0, 0, 0] = float("inf")
    cos, sin = (table.float() for table in angle_tables(16, dim))
    for write, target in ((native_kernels.write_kv, slab), (write_kv_torch, expected)):
        write(target, (places // 16).int(), (places % 16).int(), k, v, cos, sin)
    assert torch.equal(slab.view(torch.uint8), expected.view(torch.uint8))


def test_not_a_number_stays_one(native_kernels: Kernels) -> None:
    slab, rows = torch.zeros(1, 2, 1, 4, 8, dtype=torch.bfloat16), torch.full((1, 1, 8), torch.nan)
    cos, sin = (table.float() for table in angle_tables(4, 8))
    native_kernels.write_kv(slab, torch.tensor([0]).int(), torch.tensor([2]).int(), rows, rows, cos, sin)
    assert slab[0, :, 0, 2].isnan().all()


def test_results_do_not_depend_on_the_number_of_threads(native_kernels: Kernels, restore_threads: None) -> None:
    torch.manual_seed(0)
    case = make_case(native_kernels, Shape(3, 3, 64, 8, (200, 150)), torch.bfloat16)
    results = []
    for threads in (1, 2, 5):
        set_num_threads(threads)
        results.append(native_kernels.decode_attention(*case.arguments, 0.125))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    ("table", "value", "message"),
    [
        (0, 99, "a slot is not in the slab"),
        (1, 999, "a distance has no row"),
        (2, 9, "number of pages"),
        (2, 0, "number of pages"),
        (3, 33, "tail tokens"),
    ],
)
def test_indices_out_of_range_are_refused(native_kernels: Kernels, table: int, value: int, message: str) -> None:
    case = make_case(native_kernels, Shape(1, 1, 8, 32, (60,)), torch.float32)
    case.tables[table].view(-1)[0] = value
    with pytest.raises(ValueError, match=message):
        native_kernels.decode_attention(*case.arguments, 1.0)


def test_a_write_out_of_range_is_refused(native_kernels: Kernels) -> None:
    slab, rows = torch.zeros(2, 2, 1, 4, 8), torch.zeros(1, 1, 8)
    cos, sin = (table.float() for table in angle_tables(4, 8))
    for slot, offset in ((2, 0), (-1, 0), (0, 4)):
        with pytest.raises(ValueError, match="is not in the"):
            native_kernels.write_kv(
                slab, torch.tensor([slot]).int(), torch.tensor([offset]).int(), rows, rows, cos, sin
            )
    assert not slab.any()
    with pytest.raises(ValueError, match="multiple of 8"):
        native_kernels.write_kv(
            torch.zeros(2, 2, 1, 4, 12),
            torch.tensor([0]).int(),
            torch.tensor([0]).int(),
            torch.zeros(1, 1, 12),
            torch.zeros(1, 1, 12),
            torch.zeros(4, 6),
            torch.zeros(4, 6),
        )
