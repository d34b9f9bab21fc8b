"""Chunks of prompts in blocks of bfloat16 against torch's, over odd numbers of rows, columns, tokens and units.

For sanitizers, as reference_checks.py is; where an instruction set leaves chunks to torch there is nothing to check.
"""

import sys
from functools import partial

import torch
from reference_checks import ANGLES, Case, close, failures
from torch import Tensor

from octavo.engine.kernels.activation import silu_mul_torch
from octavo.engine.kernels.dispatch import Kernels, load_kernels
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.far_rows import ChosenPages, attend_far_native, attend_far_torch
from octavo.engine.kernels.linear import linear_torch
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
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix


def products(kernels: Kernels) -> None:
    """Matrices in tiles, each for itself and gated."""
    ops = kernels.native
    assert ops is not None
    for number, kind in enumerate(kind for kind in Format if kind.block_size > 1):
        case = Case(number, "cpu")
        n, rows, units = case.pick(1, 33, 64), case.pick(9, 48, 70), case.pick(8, 56)
        data = [case.integers(60, rows, kind.row_bytes(32 * units)).to(torch.uint8) for _ in range(2)]
        plain = [BlockMatrix(kind, (rows, 32 * units), part) for part in data]
        tiled, biases = [kernels.arrange(matrix) for matrix in plain], (case.normal(rows), None)
        x = (case.normal(n, 32 * units) * 0.01).bfloat16()
        expected = linear_torch(x.float(), [_rounded(matrix) for matrix in plain], biases)
        for got, each in zip(multiply_many(ops, x, tiled, biases), expected, strict=True):  # type: ignore[arg-type]
            close(got, each)
        gate, up = linear_torch(x.float(), [_rounded(matrix) for matrix in plain], (None, None))
        close(multiply_gated(ops, x, *tiled), silu_mul_torch(gate, up, torch.bfloat16), 2**-7)  # type: ignore[arg-type]


def attention(kernels: Kernels) -> None:
    """Runs of tokens one after the other, then as many as there may be in one call."""
    ops = kernels.native
    assert ops is not None
    for seed, (rows, heads, kv_heads, dim, tokens) in enumerate(
        ((33, 6, 2, 64, 70), (5, 2, 1, 32, 1), (64, 3, 3, 96, 257))
    ):
        case, attend = Case(seed, "cpu"), RowAttention(ops)
        q, out = case.normal(rows, heads, dim), torch.empty(rows, heads, dim, dtype=torch.bfloat16)
        states = [AttentionState.empty(rows, heads, dim) for _ in range(2)]
        states[0].clear()
        cos, sin = (table[: 1 if seed == 2 else rows] for table in case.angles(dim))
        for turn in range(2):
            first = case.integers(tokens, rows) if turn else torch.zeros(rows, dtype=torch.int32)
            seen = Seen(
                first, torch.minimum(first + case.integers(tokens, rows) + 1 - turn, torch.tensor(tokens)).int()
            )
            pairs = case.normal(2, kv_heads, tokens, dim).bfloat16()
            attend_rows_torch(q, *pairs, cos, sin, seen, 0.2, states[0])
            attend(q, [Run(*pairs, seen)], cos, sin, 0.2, states[1], is_first=not turn)
        runs = [_from(begin, pairs, seen) for begin in (0, 0, tokens // 2, tokens - 1)]
        assert len(runs) == MOST_RUNS
        for run in runs:
            attend_rows_torch(q, run.keys, run.values, cos, sin, run.seen, 0.2, states[0])
        attend(q, runs, cos, sin, 0.2, states[1], is_first=False, out=out)
        close(out, (states[0].values / states[0].total[..., None]).bfloat16(), 2**-6)


def far_attention(kernels: Kernels) -> None:
    """Every codec, more heads than stay at hand, and pages of more dimensions than are read at once."""
    ops = kernels.native
    assert ops is not None
    for seed, name in enumerate(CODECS):
        case, layout = Case(seed, "cpu"), PageLayout(CODECS[name], 2, (32, 64)[seed % 2], (32, 64, 96, 160, 256)[seed])
        rows, dim, slab = 70, layout.head_dim, encode_pages_torch(case.kv(layout, 8), layout)
        begins = torch.tensor((0, 5, 6, 12)).int() if seed % 2 == 0 else torch.tensor((0, 3, 12)).int()
        pages = ChosenPages(case.integers(8, 12), case.integers(ANGLES, 12), begins)
        q, (cos, sin), outs = case.normal(rows, 6, dim) / dim, case.angles(dim), []
        for attend in (attend_far_torch, partial(attend_far_native, ops)):
            state = AttentionState(torch.zeros(rows, 6), torch.ones(rows, 6), torch.ones(rows, 6, dim))
            outs.append(torch.empty(rows, 6, dim, dtype=torch.bfloat16))
            attend(q, slab, layout, pages, cos, sin, (cos[:rows], sin[:rows]), 0.2, state, outs[-1])
        close(outs[1], outs[0], 2**-6)


def _from(begin: int, pairs: Tensor, seen: Seen) -> Run:
    """Tokens from number `begin` on."""
    first, last = ((x - begin).clamp(min=0) for x in seen)
    return Run(*pairs[:, :, begin:].contiguous(), Seen(first, last))


def _rounded(matrix: BlockMatrix) -> BlockMatrix:
    """What the blocks of `matrix` are worth in bfloat16."""
    return BlockMatrix(Format.BF16, matrix.shape, matrix.dequantize(torch.bfloat16).view(torch.uint8))


def main() -> int:
    """The number of checks that failed."""
    kernels = load_kernels("cpu", prefer="native")
    if kernels.native is None or not kernels.native.has_many:
        return 0
    return failures((products, attention, far_attention), kernels)


if __name__ == "__main__":
    sys.exit(main())
