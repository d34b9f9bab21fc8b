"""Chunks of a prompt in C, where the processor multiplies blocks of bfloat16: see native/many_rows.h.

Weights are expanded from their tiles on the way, and attention takes keys and values as `gather_pages` gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from octavo.engine.kernels.checks import MOST_DIM, require, require_angles, require_shape
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.tiles import TiledMatrix
from octavo.engine.kv.codec import padded

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

BLOCK = 32
"""Rows and columns that are multiplied at a time: a constant of the C code."""
MOST_RUNS = 4
"""Runs of tokens that one call takes: another one."""


def multiply_many(ops: Ops, x: Tensor, weights: Sequence[TiledMatrix], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """`linear_torch` of `x` bfloat16 [n, in], summed in float32: float32 [n, out_i] per weight."""
    n, cols = _check(x, weights)
    outs, arguments = [], []
    for weight, bias in zip(weights, biases, strict=True):
        rows = weight.shape[0]
        if bias is not None:
            require("multiply_many", torch.float32, bias)
            require_shape("multiply_many", "a bias", bias, rows)
        out = torch.empty(n, rows)
        outs.append(out)
        arguments += [*_words(weight), None if bias is None else bias.data_ptr(), out.data_ptr()]
    ops.multiply_many(x.data_ptr(), n, cols, None, *arguments)
    return outs


def multiply_gated(ops: Ops, x: Tensor, gate: TiledMatrix, up: TiledMatrix) -> Tensor:
    """silu(x @ gate.T) * (x @ up.T), bfloat16 [n, out], of `x` bfloat16 [n, in]; in float32 up to the end."""
    n, cols = _check(x, (gate, up))
    if gate.shape != up.shape:
        raise ValueError(f"multiply_gated takes two matrices of one shape, not {gate.shape} and {up.shape}")
    out = torch.empty(n, gate.shape[0], dtype=torch.bfloat16)
    ops.multiply_many(x.data_ptr(), n, cols, out.data_ptr(), *_words(gate), None, None, *_words(up), None, None)
    return out


def _check(x: Tensor, weights: Sequence[TiledMatrix]) -> tuple[int, int]:
    require("multiply_many", torch.bfloat16, x)
    n, cols = x.shape
    for weight in weights:
        require("multiply_many", torch.uint8, weight.data)
        if weight.shape[1] != cols:
            raise ValueError(f"linear takes {weight.shape[1]} inputs for a matrix {list(weight.shape)}, not {cols}")
    return n, cols


def _words(weight: TiledMatrix) -> tuple[int, int, int]:
    return weight.format.ggml_type, weight.data.data_ptr(), weight.shape[0]


class Seen(NamedTuple):
    """Of the tokens at hand, each query sees those from `first` to before `last`: int32 [rows] each."""

    first: Tensor
    last: Tensor

    @classmethod
    def everything(cls, rows: int, tokens: int) -> Seen:
        return cls(torch.zeros(rows, dtype=torch.int32), torch.full((rows,), tokens, dtype=torch.int32))


def attend_rows_torch(
    q: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor, seen: Seen, scale: float, state: AttentionState
) -> None:
    """Attention of `q` float32 [rows, heads, d], not rotated, over `keys`, `values` [kv_heads, tokens, d], in float32.

    `cos`, `sin` float32 [rows, d/2] rotate the queries, or [1, d/2] all of them alike. The result is added to `state`,
    whose empty rows begin with a highest score of minus infinity.
    """
    heads, kv_heads = q.shape[1], keys.shape[0]
    first, second = q.chunk(2, dim=-1)
    c, s = cos[:, None], sin[:, None]
    queries = torch.cat((first * c - second * s, second * c + first * s), dim=-1)
    k, v = (x.float().repeat_interleave(heads // kv_heads, 0) for x in (keys, values))
    scores = torch.einsum("rhd,htd->rht", queries, k) * scale
    token = torch.arange(keys.shape[1])
    hidden = (token < seen.first[:, None]) | (token >= seen.last[:, None])
    scores.masked_fill_(hidden[:, None], -torch.inf)
    highest = torch.maximum(state.highest, scores.amax(-1))
    shift = torch.where(highest > -torch.inf, highest, 0.0)
    weights, before = torch.exp(scores - shift[..., None]), torch.exp(state.highest - shift)
    state.values.mul_(before[..., None]).add_(torch.einsum("rht,htd->rhd", weights, v))
    state.total.mul_(before).add_(weights.sum(-1))
    state.highest.copy_(highest)


def takes_heads_of(dim: int) -> bool:
    """Whether `attend_rows` can do with this head dimension."""
    return dim % BLOCK == 0 and dim <= MOST_DIM


class Run(NamedTuple):
    """Tokens side by side, `keys` and `values` [kv_heads, tokens, d], and which of them each query sees."""

    keys: Tensor
    values: Tensor
    seen: Seen


class RowAttention:
    """`attend_rows_torch` in C, with products of bfloat16, and the memory in which it arranges keys and values."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._packed = torch.empty(0, dtype=torch.bfloat16)

    def __call__(
        self,
        q: Tensor,
        runs: Sequence[Run],
        cos: Tensor,
        sin: Tensor,
        scale: float,
        state: AttentionState,
        *,
        is_first: bool,
        out: Tensor | None = None,
    ) -> None:
        """Of one run after the other, up to MOST_RUNS. With `is_first` the state begins here, whatever it held. With
        `out` bfloat16 [rows, heads, d] it ends here, and what it comes to goes there. Its `highest` is what exponents
        are relative to; it grows by steps: scores may be somewhat higher."""
        op, (n, heads, dim), kv_heads = "attend_rows", q.shape, runs[0].keys.shape[0]
        require(op, torch.float32, q, state.highest, state.total, state.values)
        require_angles(op, cos, sin, dim)
        require_shape(op, "a state", state.values, n, heads, dim)
        if len(cos) > 1:
            require_shape(op, "cos", cos, n, dim // 2)
        if not takes_heads_of(dim) or heads % kv_heads:
            raise ValueError(f"{op} takes heads of {BLOCK} to {MOST_DIM} dimensions, by {BLOCK}, not {dim}")
        if out is not None:
            require(op, torch.bfloat16, out)
            require_shape(op, "out", out, n, heads, dim)
        size, arguments = 0, []
        for keys, values, seen in runs:
            tokens = keys.shape[1]
            require(op, torch.bfloat16, keys, values)
            require(op, torch.int32, *seen)
            for name, tensor, shape in (
                ("keys", keys, (kv_heads, tokens, dim)),
                ("values", values, (kv_heads, tokens, dim)),
                ("first", seen.first, (n,)),
                ("last", seen.last, (n,)),
            ):
                require_shape(op, name, tensor, *shape)
            size += 2 * kv_heads * padded(tokens, BLOCK) * dim
            arguments += [keys.data_ptr(), values.data_ptr(), tokens, seen.first.data_ptr(), seen.last.data_ptr()]
        if len(self._packed) < size:
            self._packed = torch.empty(size, dtype=torch.bfloat16)
        self._ops.attend_rows(
            *(kv_heads, dim, self._packed.data_ptr(), q.data_ptr(), cos.data_ptr(), sin.data_ptr()),
            *(dim // 2 if len(cos) > 1 else 0, n, heads),
            scale,
            *(state.highest.data_ptr(), state.total.data_ptr(), state.values.data_ptr()),
            is_first,
            None if out is None else out.data_ptr(),
            *arguments,
        )
