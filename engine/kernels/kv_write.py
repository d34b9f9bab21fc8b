"""Writing new keys and values into their pages."""

import torch
from torch import Tensor


def write_kv_torch(
    slab: Tensor, slots: Tensor, offsets: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
) -> None:
    """Store row i of `k` and `v` float32 [n, kv_heads, d] at slab[slots[i], 0 and 1, :, offsets[i], :].

    `slab` is [num_slots, 2, kv_heads, page_size, d], bfloat16 or float32; `slots`, `offsets` are int32 [n].
    A key is rotated by its offset inside its page only, pairing dimension j with j + d/2 (RoPE, Su et al.,
    2021), with `cos` and `sin` float32 [page_size, d/2]. Rows that share a place are an error of the caller.
    """
    slot_ids, offset_ids = slots.long(), offsets.long()
    half = k.shape[-1] // 2
    first, second = k[..., :half], k[..., half:]
    c, s = cos[offset_ids].unsqueeze(1), sin[offset_ids].unsqueeze(1)
    rotated = torch.cat((first * c - second * s, second * c + first * s), dim=-1)
    slab[slot_ids, 0, :, offset_ids] = rotated.to(slab.dtype)
    slab[slot_ids, 1, :, offset_ids] = v.to(slab.dtype)
