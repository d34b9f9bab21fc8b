"""Writing new keys and values into their pages."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import require, require_slab
from octavo.engine.model.rope import rotate

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def write_kv_torch(
    slab: Tensor, slots: Tensor, offsets: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
) -> None:
    """Store row i of `k` and `v` float32 [n, kv_heads, d] at slab[slots[i], 0 and 1, :, offsets[i], :].

    `slab` is [num_slots, 2, kv_heads, page_size, d], bfloat16 or float32; `slots`, `offsets` are int32 [n].
    A key is rotated by its offset inside its page only, pairing dimension j with j + d/2 (RoPE, Su et al.,
    2021), with `cos` and `sin` float32 [page_size, d/2]. Rows that share a place are an error of the caller.
    """
    slot_ids, offset_ids = slots.long(), offsets.long()
    rotated = rotate(k, cos[offset_ids].unsqueeze(1), sin[offset_ids].unsqueeze(1))
    slab[slot_ids, 0, :, offset_ids] = rotated.to(slab.dtype)
    slab[slot_ids, 1, :, offset_ids] = v.to(slab.dtype)


def write_kv_native(
    ops: "Ops", slab: Tensor, slots: Tensor, offsets: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
) -> None:
    """`write_kv_torch` in C, on the CPU, to the bit.

    ValueError for a slot or an offset that does not exist; nothing is written then.
    """
    num_slots, kv_heads, page_size, dim = require_slab("write_kv", slab)
    n = slots.shape[0]
    require("write_kv", torch.int32, slots, offsets)
    require("write_kv", torch.float32, k, v, cos, sin)
    shapes = (offsets.shape, k.shape, v.shape, cos.shape, sin.shape)
    rows, angles = (n, kv_heads, dim), (page_size, dim // 2)
    expected = ((n,), rows, rows, angles, angles)
    if shapes != expected:
        raise ValueError(f"write_kv takes offsets, k, v, cos, sin of shapes {expected}, not {shapes}")
    ops.write_kv(
        slab.data_ptr(),
        num_slots,
        slab.dtype is torch.bfloat16,
        kv_heads,
        page_size,
        dim,
        slots.data_ptr(),
        offsets.data_ptr(),
        k.data_ptr(),
        v.data_ptr(),
        cos.data_ptr(),
        sin.data_ptr(),
        n,
    )
