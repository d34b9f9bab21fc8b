"""Matrix products with quantized weights in Triton."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from octavo.engine.kernels.formats_triton import load_weights
from octavo.engine.kernels.linear import SCRATCH_BYTES, linear_torch, row_tiles
from octavo.engine.kernels.triton_jit import EXACT, FUSED, constexpr, jit, narrowed, tensor, tl
from octavo.engine.weights.matrix import BlockMatrix, Weight

_FEW_ROWS = 8
"""Up to this many rows of input the blocks are multiplied in place; beyond, a tile is expanded for torch's product."""

_RUN = 32  # weights that are read together
_ROWS, _RUNS = 4, 8  # outputs, and runs of each, that a program holds at a time


def linear_triton(x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """`linear_torch` in Triton, for `BlockMatrix` weights; others take the plain way.

    Few rows are multiplied with the blocks in place, in float32; for more (prefill) the matrix is expanded to the
    dtype of `x`, one tile of rows at a time, and torch multiplies.
    """
    x = x.contiguous()
    return [
        _product(x, weight, bias) if isinstance(weight, BlockMatrix) else linear_torch(x, [weight], [bias])[0]
        for weight, bias in zip(weights, biases, strict=True)
    ]


def _product(x: Tensor, weight: BlockMatrix, bias: Tensor | None) -> Tensor:
    (n, cols), rows = x.shape, weight.shape[0]
    if cols != weight.shape[1]:
        raise ValueError(f"linear takes {weight.shape[1]} inputs for a matrix {list(weight.shape)}, not {cols}")
    out = torch.empty(n, rows, device=x.device)
    runs, row_bytes, kind = -(-cols // _RUN), weight.data.shape[1], weight.format.ggml_type
    if 0 < n <= _FEW_ROWS:
        _multiply[(-(-rows // _ROWS), n)](
            x, weight.data, out if bias is None else bias, out, rows, cols, runs, row_bytes,
            kind=kind, has_bias=bias is not None, block_rows=_ROWS, block_runs=_RUNS, **FUSED,
        )  # fmt: skip
        return out
    for tile in row_tiles(rows, cols * x.element_size(), SCRATCH_BYTES) if n else ():
        data = weight.data[tile]
        expanded = torch.empty(len(data), cols, dtype=x.dtype, device=x.device)
        _expand[(len(data), -(-runs // _RUNS))](
            data, expanded, cols, runs, row_bytes, kind=kind, block_runs=_RUNS, **EXACT
        )
        out[:, tile] = torch.mm(x, expanded.t())
    return out if bias is None else out.add_(bias)


@jit
def _multiply(
    x: tensor,
    data: tensor,
    bias: tensor,
    out: tensor,
    rows: tensor,
    cols: tensor,
    runs: tensor,
    row_bytes: tensor,
    kind: constexpr,
    has_bias: constexpr,
    block_rows: constexpr,
    block_runs: constexpr,
) -> None:
    """One row of `x` with a block of rows of the matrix."""
    row, n = tl.program_id(0) * block_rows + tl.arange(0, block_rows), tl.program_id(1)
    start = data + tl.minimum(row, rows - 1).to(tl.int64)[:, None, None] * row_bytes
    lane = tl.arange(0, 16)[None, None, :]
    sums = tl.zeros((block_rows, block_runs, 16), tl.float32)
    for begin in range(0, runs, block_runs):
        run = begin + tl.arange(0, block_runs)[None, :, None]
        number = run * 32 + lane
        low, high = load_weights(start, run, lane, cols, kind)
        inputs = x + n * cols + number
        sums += low * tl.load(inputs, mask=number < cols, other=0.0).to(tl.float32)
        sums += high * tl.load(inputs + 16, mask=number + 16 < cols, other=0.0).to(tl.float32)
    total = tl.sum(tl.sum(sums, 2), 1)
    if has_bias:
        total += tl.load(bias + row, mask=row < rows, other=0.0)
    tl.store(out + n * rows + row, total, mask=row < rows)


@jit
def _expand(
    data: tensor,
    out: tensor,
    cols: tensor,
    runs: tensor,
    row_bytes: tensor,
    kind: constexpr,
    block_runs: constexpr,
) -> None:
    """Some runs of one row, as numbers."""
    row = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1) * block_runs + tl.arange(0, block_runs)[:, None]
    lane = tl.arange(0, 16)[None, :]
    number = run * 32 + lane
    low, high = load_weights(data + row * row_bytes, run, lane, cols, kind)
    to = out + row * cols + number
    tl.store(to, narrowed(low, out.dtype.element_ty), mask=number < cols)
    tl.store(to + 16, narrowed(high, out.dtype.element_ty), mask=number + 16 < cols)
