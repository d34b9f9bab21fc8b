"""Attention of one new token per sequence over the pages of its context."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import require, require_slab

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def decode_attention_torch(
    q: Tensor,
    slab: Tensor,
    page_slots: Tensor,
    page_distances: Tensor,
    num_pages: Tensor,
    tail_tokens: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
) -> Tensor:
    """Softmax attention of `q` float32 [n, heads, d], not yet rotated; returns float32 [n, heads, d].

    Sequence i reads the pages slab[page_slots[i, :num_pages[i]]] (`slab` as in `write_kv_torch`), all tokens
    of each but only the first `tail_tokens[i]` of the last one. Keys carry the rotation of their offset in
    the page, so the query is rotated once per page, by page_distances[i, p] = position - page start: the
    rotations compose to the relative distance of query and key. `cos` and `sin` are float32
    [max_distance + 1, d/2]; heads / kv_heads neighbouring query heads share a KV head. The four page tensors
    are int32 ([n, max_pages] twice, [n] twice); every sequence has at least one page with one token.
    """
    n, heads, dim = q.shape
    _, _, kv_heads, page_size, _ = slab.shape
    half = dim // 2
    out = torch.empty_like(q)
    for i in range(n):
        pages = int(num_pages[i])
        slots, distances = page_slots[i, :pages].long(), page_distances[i, :pages].long()
        tokens = (pages - 1) * page_size + int(tail_tokens[i])
        keys, values = slab[slots, 0].float(), slab[slots, 1].float()  # [pages, kv_heads, page_size, d]
        first, second = q[i, :, :half], q[i, :, half:]
        c, s = cos[distances].unsqueeze(1), sin[distances].unsqueeze(1)
        rotated = torch.cat((first * c - second * s, second * c + first * s), dim=-1)  # [pages, heads, d]
        grouped = rotated.view(pages, kv_heads, heads // kv_heads, dim)
        scores = torch.einsum("phgd,phtd->hgpt", grouped, keys).flatten(2)[..., :tokens] * scale
        weights = torch.softmax(scores, dim=-1)  # [kv_heads, group, tokens]
        flat = values.transpose(0, 1).flatten(1, 2)[:, :tokens]
        out[i] = torch.matmul(weights, flat).view(heads, dim)
    return out


def decode_attention_native(
    ops: "Ops",
    q: Tensor,
    slab: Tensor,
    page_slots: Tensor,
    page_distances: Tensor,
    num_pages: Tensor,
    tail_tokens: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
) -> Tensor:
    """`decode_attention_torch` in C, on the CPU, reading the pages in place.

    Pages are summed in groups of a constant size that are merged in order, so the result does not depend on
    the number of threads. ValueError for a slot, distance or count out of its range.
    """
    op = "decode_attention"
    num_slots, kv_heads, page_size, dim = require_slab(op, slab)
    require(op, torch.float32, q, cos, sin)
    require(op, torch.int32, page_slots, page_distances, num_pages, tail_tokens)
    n, heads, _ = q.shape
    angles, max_pages = cos.shape[0], page_slots.shape[-1]
    shapes = (q.shape, cos.shape, sin.shape, page_slots.shape, page_distances.shape)
    expected = ((n, heads, dim), (angles, dim // 2), (angles, dim // 2), (n, max_pages), (n, max_pages))
    if shapes != expected or num_pages.shape != (n,) or tail_tokens.shape != (n,) or heads % kv_heads:
        raise ValueError(
            f"{op} takes q, cos, sin, page_slots, page_distances of shapes {expected} for these arguments, with "
            f"a multiple of {kv_heads} query heads, and {n} page and tail counts; not {shapes}"
        )
    out = torch.empty_like(q)
    ops.decode_attention(
        slab.data_ptr(),
        num_slots,
        slab.dtype is torch.bfloat16,
        kv_heads,
        page_size,
        dim,
        q.data_ptr(),
        page_slots.data_ptr(),
        page_distances.data_ptr(),
        num_pages.data_ptr(),
        tail_tokens.data_ptr(),
        cos.data_ptr(),
        sin.data_ptr(),
        angles,
        scale,
        n,
        heads,
        max_pages,
        out.data_ptr(),
    )
    return out
