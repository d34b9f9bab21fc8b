"""Writing new keys and values into their pages, in Triton."""

from __future__ import annotations

from torch import Tensor

from octavo.engine.kernels.triton_jit import EXACT, constexpr, jit, narrowed, power_of_two, tensor, tl


def write_kv_triton(
    slab: Tensor, slots: Tensor, offsets: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
) -> None:
    """`write_kv_torch` in Triton, to the bit. Slots and offsets are not checked."""
    n, heads, dim = k.shape
    if n:
        _write[(n, heads)](
            slab, slots, offsets, k.contiguous(), v.contiguous(), cos, sin,
            size=slab.shape[3], dim=dim, half=power_of_two(dim // 2), **EXACT,
        )  # fmt: skip


@jit
def _write(
    slab: tensor,
    slots: tensor,
    offsets: tensor,
    k: tensor,
    v: tensor,
    cos: tensor,
    sin: tensor,
    size: constexpr,
    dim: constexpr,
    half: constexpr,
) -> None:
    """One head of one token."""
    token, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    pair = tl.arange(0, half)
    there = pair < dim // 2
    slot, offset = tl.load(slots + token).to(tl.int64), tl.load(offsets + token)
    c = tl.load(cos + offset * (dim // 2) + pair, mask=there, other=0.0)
    s = tl.load(sin + offset * (dim // 2) + pair, mask=there, other=0.0)
    row = (token.to(tl.int64) * heads + head) * dim + pair
    first, second = tl.load(k + row, mask=there, other=0.0), tl.load(k + row + dim // 2, mask=there, other=0.0)
    to = slab + ((slot * 2 * heads + head) * size + offset) * dim + pair
    kind = slab.dtype.element_ty
    tl.store(to, narrowed(first * c - second * s, kind), mask=there)
    tl.store(to + dim // 2, narrowed(second * c + first * s, kind), mask=there)
    to += heads * size * dim
    tl.store(to, narrowed(tl.load(v + row, mask=there, other=0.0), kind), mask=there)
    tl.store(to + dim // 2, narrowed(tl.load(v + row + dim // 2, mask=there, other=0.0), kind), mask=there)
