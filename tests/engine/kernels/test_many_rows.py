"""Chunks of a prompt in blocks of bfloat16: as exact as summing in float32 is, and each row for itself."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels, set_num_threads
from octavo.engine.kernels.linear import FEW_ROWS_OF_TILES
from octavo.engine.kernels.many_rows import (
    MOST_RUNS,
    RowAttention,
    Run,
    Seen,
    attend_rows_torch,
    multiply_gated,
    multiply_many,
)
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.tiles import TiledMatrix
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

RandomMatrix = Callable[..., BlockMatrix]
TILED = [kind for kind in Format if kind.block_size > 1]


@pytest.mark.parametrize("weight_format", TILED, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("n", "rows", "cols"), [(1, 16, 256), (33, 37, 512), (70, 100, 2816)])
def test_products_are_summed_in_float32(
    block_kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format, n: int, rows: int, cols: int
) -> None:
    """Several matrices, whole and partial blocks; more columns than are expanded at a time."""
    matrices = [random_matrix(weight_format, rows, cols), random_matrix(Format.Q8_0, 32, cols)]
    biases, x = [torch.randn(rows), None], torch.randn(n, cols).bfloat16()
    outs = multiply_many(_ops(block_kernels), x, [_tiles(block_kernels, matrix) for matrix in matrices], biases)
    for got, matrix, bias in zip(outs, matrices, biases, strict=True):
        weights = matrix.dequantize(torch.bfloat16).double()
        expected = x.double() @ weights.T + (0 if bias is None else bias)
        size = x.double().abs() @ weights.abs().T + (0 if bias is None else bias.abs())
        assert ((got.double() - expected).abs() <= 2e-6 * size).all()


@pytest.mark.parametrize(("n", "rows", "cols"), [(5, 16, 256), (65, 41, 768), (96, 64, 1792)])
def test_a_gated_product_is_rounded_once(
    block_kernels: Kernels, random_matrix: RandomMatrix, n: int, rows: int, cols: int
) -> None:
    gate, up = (random_matrix(kind, rows, cols) for kind in (Format.Q4_K, Format.Q6_K))
    x = torch.randn(n, cols).bfloat16()
    got = multiply_gated(_ops(block_kernels), x, _tiles(block_kernels, gate), _tiles(block_kernels, up))
    g, u = (x.double() @ matrix.dequantize(torch.bfloat16).double().T for matrix in (gate, up))
    expected = torch.nn.functional.silu(g) * u
    assert got.dtype is torch.bfloat16
    assert ((got.double() - expected).abs() <= 2**-8 * expected.abs() + 1e-4 * expected.abs().max()).all()


def test_the_decoder_takes_a_gated_product_where_there_is_one(
    native_kernels: Kernels, random_matrix: RandomMatrix
) -> None:
    matrices = [random_matrix(Format.Q4_1, 64, 256, seed) for seed in range(2)]
    tiled = [native_kernels.arrange(matrix) for matrix in matrices]
    for n in (3, FEW_ROWS_OF_TILES + 1):
        x = torch.randn(n, 256).bfloat16()
        got = native_kernels.gated(x, *tiled, torch.bfloat16)
        gate, up = native_kernels.linear(x, matrices, (None, None))
        expected = (torch.nn.functional.silu(gate) * up).float()
        assert got.dtype is torch.bfloat16
        assert (got.float() - expected).abs().max() <= 2**-6 * expected.abs().max()


def test_a_row_depends_on_nothing_else(
    block_kernels: Kernels, random_matrix: RandomMatrix, restore_threads: None
) -> None:
    """Neither on how a prompt is cut into chunks, nor on threads."""
    ops = _ops(block_kernels)
    tiled = [_tiles(block_kernels, random_matrix(Format.Q5_0, rows, 1824)) for rows in (40, 40)]
    x = torch.randn(97, 1824).bfloat16()
    set_num_threads(3)
    (together,), gated = multiply_many(ops, x, tiled[:1], [None]), multiply_gated(ops, x, *tiled)
    set_num_threads(1)
    for part in (slice(0, 1), slice(30, 97), slice(64, 96)):
        (alone,) = multiply_many(ops, x[part].contiguous(), tiled[:1], [None])
        assert torch.equal(alone, together[part])
        assert torch.equal(multiply_gated(ops, x[part].contiguous(), *tiled), gated[part])


@pytest.mark.parametrize(
    ("rows", "heads", "kv_heads", "dim", "tokens"),
    [(33, 4, 2, 64, 70), (32, 3, 3, 32, 128), (70, 9, 3, 64, 300), (5, 2, 1, 128, 31), (64, 14, 2, 64, 513)],
)
def test_attention_adds_up_in_a_state(
    block_kernels: Kernels, rows: int, heads: int, kv_heads: int, dim: int, tokens: int
) -> None:
    """Over two runs of tokens, of which each query sees a part of its own, of the second one perhaps nothing."""
    attend, scale = RowAttention(_ops(block_kernels)), dim**-0.5
    q, angles = torch.randn(rows, heads, dim), torch.rand(rows, dim // 2) * 6
    found, expected = (AttentionState.empty(rows, heads, dim) for _ in range(2))
    expected.clear()
    for turn in range(2):
        seen = _some_sight(rows, tokens) if turn else _all(rows, tokens)
        keys, values = torch.randn(2, kv_heads, tokens, dim).bfloat16()
        turned = angles.cos(), angles.sin()
        attend_rows_torch(q, keys, values, *turned, seen, scale, expected)
        attend(q, [Run(keys, values, seen)], *turned, scale, found, is_first=not turn)
    assert (found.highest + found.total.log() - expected.highest - expected.total.log()).abs().max() < 0.01
    got, wanted = (state.values / state.total[..., None] for state in (found, expected))
    assert (got - wanted).abs().max() <= 2**-6 * wanted.abs().max()
    out = torch.empty(q.shape, dtype=torch.bfloat16)
    nothing = Seen(torch.zeros(rows, dtype=torch.int32), torch.zeros(rows, dtype=torch.int32))
    attend(q, [Run(keys, values, nothing)], *turned, scale, found, is_first=False, out=out)
    assert torch.equal(out, (found.values * (1 / found.total[..., None])).bfloat16())


def test_what_a_query_does_not_see_does_not_matter(block_kernels: Kernels) -> None:
    """Other tokens may hold anything, and as a chunk is cut its rows stay the same to the bit."""
    attend, (rows, tokens) = RowAttention(_ops(block_kernels)), (96, 160)
    q, (keys, values) = torch.randn(rows, 2, 32), torch.randn(2, 1, tokens, 32).bfloat16()
    cos, sin = torch.ones(rows, 16), torch.zeros(rows, 16)
    seen = Seen(torch.arange(rows).int(), torch.arange(40, 40 + rows).int())
    whole = _out(attend, q, keys, values, cos, sin, seen)
    other = keys.clone()
    other[:, 40 + rows :] = 1000
    assert torch.equal(_out(attend, q, other, values, cos, sin, seen), whole)
    for part in (slice(0, 32), slice(32, 96), slice(64, 70)):
        cut = Seen(seen.first[part], seen.last[part])
        assert torch.equal(_out(attend, q[part], keys, values, cos[part], sin[part], cut), whole[part])


def test_runs_add_up_in_one_call(block_kernels: Kernels) -> None:
    """As one after the other, as many as there may be, each with an odd number of tokens."""
    attend, q, angles = RowAttention(_ops(block_kernels)), torch.randn(70, 4, 64), torch.rand(70, 32) * 6
    runs = [Run(*torch.randn(2, 2, tokens, 64).bfloat16(), _some_sight(70, tokens)) for tokens in (130, 33, 1, 70)]
    runs[-1] = runs[-1]._replace(seen=_all(70, 70))
    together, apart = (AttentionState.empty(70, 4, 64) for _ in range(2))
    turned = angles.cos(), angles.sin()
    attend(q, runs, *turned, 0.1, together, is_first=True)
    for number, run in enumerate(runs):
        attend(q, [run], *turned, 0.1, apart, is_first=number == 0)
    torch.testing.assert_close(together.values, apart.values)
    torch.testing.assert_close(together.total, apart.total)
    assert len(runs) == MOST_RUNS
    with pytest.raises(TypeError, match="at most"):
        attend(q, [*runs, runs[0]], *turned, 0.1, together, is_first=True)


def test_one_angle_for_all_queries(block_kernels: Kernels) -> None:
    attend, q = RowAttention(_ops(block_kernels)), torch.randn(7, 2, 64)
    keys, values = torch.randn(2, 1, 50, 64).bfloat16()
    angles = torch.rand(1, 32)
    one = _out(attend, q, keys, values, angles.cos(), angles.sin(), _all(7, 50))
    each = _out(attend, q, keys, values, angles.cos().repeat(7, 1), angles.sin().repeat(7, 1), _all(7, 50))
    assert torch.equal(one, each)


def test_wrong_arguments_are_refused(block_kernels: Kernels, random_matrix: RandomMatrix) -> None:
    ops, tiled = _ops(block_kernels), _tiles(block_kernels, random_matrix(Format.Q4_0, 16, 64))
    with pytest.raises(ValueError, match="64 inputs for a matrix"):
        multiply_many(ops, torch.randn(40, 32).bfloat16(), [tiled], [None])
    with pytest.raises(ValueError, match="bias"):
        multiply_many(ops, torch.randn(40, 64).bfloat16(), [tiled], [torch.randn(3)])
    other = _tiles(block_kernels, random_matrix(Format.Q4_0, 32, 64))
    with pytest.raises(ValueError, match="one shape"):
        multiply_gated(ops, torch.randn(40, 64).bfloat16(), tiled, other)
    attend, angles = RowAttention(ops), torch.ones(3, 16)
    keys = torch.randn(1, 5, 32).bfloat16()
    for first, last in ((-1, 2), (0, 6)):
        seen = Seen(torch.full((3,), first).int(), torch.full((3,), last).int())
        with pytest.raises(ValueError, match="not there"):
            _out(attend, torch.randn(3, 1, 32), keys, keys, angles, angles, seen)
    with pytest.raises(ValueError, match="dimensions"):
        _out(attend, torch.randn(3, 1, 24), keys[..., :24].contiguous(), keys[..., :24].contiguous(), angles[:, :12],
             angles[:, :12], _all(3, 5))  # fmt: skip


def _ops(kernels: Kernels):  # type: ignore[no-untyped-def]  # a type of the extension
    assert kernels.native is not None
    return kernels.native


def _tiles(kernels: Kernels, matrix: BlockMatrix) -> TiledMatrix:
    tiled = kernels.arrange(matrix)
    assert isinstance(tiled, TiledMatrix)
    return tiled


def _all(rows: int, tokens: int) -> Seen:
    return Seen(torch.zeros(rows, dtype=torch.int32), torch.full((rows,), tokens, dtype=torch.int32))


def _some_sight(rows: int, tokens: int) -> Seen:
    first = torch.randint(tokens, (rows,), dtype=torch.int32)
    return Seen(first, torch.minimum(first + torch.randint(tokens, (rows,)), torch.tensor(tokens)).int())


def _out(attend: RowAttention, q: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor, seen: Seen) -> Tensor:
    out = torch.empty(q.shape, dtype=torch.bfloat16)
    state = AttentionState.empty(*q.shape)
    attend(q, [Run(keys, values, seen)], cos.contiguous(), sin.contiguous(), 0.2, state, is_first=True, out=out)
    return out
