"""Attention of pages of queries over encoded pages that each of them chose, where the processor multiplies blocks of
bfloat16: see native/far_attention.inc.h.

Pages are decoded on the way, a few at a time, to be multiplied with the queries of all heads that share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from octavo.engine.kernels.checks import describe, require, require_angles, require_pages, require_shape
from octavo.engine.kernels.gather import gather_pages_torch
from octavo.engine.kernels.many_rows import BLOCK, Seen, attend_rows_torch, takes_heads_of
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.codec import PageLayout

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


class ChosenPages(NamedTuple):
    """Far pages that pages of queries read: number i reads those from `begins[i]` to before `begins[i + 1]` of `slots`.

    `starts` are the positions of their first tokens. All are int32.
    """

    slots: Tensor
    starts: Tensor
    begins: Tensor


def attend_far_torch(
    q: Tensor,
    slab: Tensor,
    layout: PageLayout,
    far: ChosenPages,
    cos: Tensor,
    sin: Tensor,
    turns: tuple[Tensor, Tensor],
    scale: float,
    state: AttentionState,
    out: Tensor,
) -> None:
    """Attention of `q` float32 [rows, heads, d], not rotated, by pages of queries, over pages slab[far.slots].

    `cos`, `sin` float32 [angles, d/2] rotate keys by their pages' starts, those of `turns` [rows, d/2] the queries. The
    result is added to `state`, and what that comes to goes to `out` [rows, heads, d].
    """
    for at, (begin, end) in enumerate(zip(far.begins[:-1].tolist(), far.begins[1:].tolist(), strict=True)):
        rows = slice(at * layout.page_size, min((at + 1) * layout.page_size, len(q)))
        pages = far.slots[begin:end], far.starts[begin:end]
        keys, values = gather_pages_torch(slab, layout, *pages, cos, sin, torch.float32)
        seen = Seen.everything(rows.stop - rows.start, keys.shape[1])
        part = AttentionState(state.highest[rows], state.total[rows], state.values[rows])
        attend_rows_torch(q[rows], keys, values, turns[0][rows], turns[1][rows], seen, scale, part)
    out.copy_(state.values / state.total.unsqueeze(-1))


def takes_pages_of(layout: PageLayout) -> bool:
    """Whether `attend_far_native` can do with these pages."""
    return layout.page_size % BLOCK == 0 and takes_heads_of(layout.head_dim)


def attend_far_native(
    ops: Ops,
    q: Tensor,
    slab: Tensor,
    layout: PageLayout,
    far: ChosenPages,
    cos: Tensor,
    sin: Tensor,
    turns: tuple[Tensor, Tensor],
    scale: float,
    state: AttentionState,
    out: Tensor,
) -> None:
    """`attend_far_torch` in C, with products of bfloat16, to `out` bfloat16; values of the state are lost.

    ValueError for a slot or a start out of its range.
    """
    op, (n, heads, dim) = "attend_far", q.shape
    require(op, torch.float32, q, *turns, state.highest, state.total, state.values)
    require(op, torch.int32, *far)
    require(op, torch.bfloat16, out)
    require_pages(op, slab, layout)
    require_angles(op, cos, sin, dim)
    for name, tensor, shape in (
        ("starts", far.starts, (len(far.slots),)),
        ("begins", far.begins, (-(-n // layout.page_size) + 1,)),
        ("turns", turns[0], (n, dim // 2)),
        ("turns", turns[1], (n, dim // 2)),
        ("a state", state.values, (n, heads, dim)),
        ("out", out, (n, heads, dim)),
    ):
        require_shape(op, name, tensor, *shape)
    if not takes_pages_of(layout) or dim != layout.head_dim or heads % layout.num_kv_heads:
        raise ValueError(f"{op} cannot take {heads} heads of {dim} with {layout}")
    ops.attend_far(
        *(describe(layout), layout.hadamard_size, slab.data_ptr(), slab.shape[0]),
        *(far.slots.data_ptr(), far.starts.data_ptr(), len(far.slots)),
        *(cos.data_ptr(), sin.data_ptr(), cos.shape[0], far.begins.data_ptr()),
        *(q.data_ptr(), turns[0].data_ptr(), turns[1].data_ptr(), n, heads),
        scale,
        *(state.highest.data_ptr(), state.total.data_ptr(), state.values.data_ptr(), out.data_ptr()),
    )
