"""Attention of one new token per sequence over the pages of its context."""

import torch
from torch import Tensor


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
    the page, so the query is rotated once per page, by page_distances[i, p] = query position - page start: the
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
