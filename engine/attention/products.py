"""Products of queries with keys and values that lie side by side, and how partial results become one."""

from __future__ import annotations

import torch
from torch import Tensor


class Merged:
    """Partial results of the same queries over disjoint keys, put together by their log-sum-exp.

    As in FlashAttention (Dao et al. 2022, arXiv:2205.14135), so that no score matrix of the whole context exists.
    """

    out: Tensor
    lse: Tensor

    def __init__(self) -> None:
        self._is_empty = True

    def add(self, out: Tensor, lse: Tensor) -> None:
        """`out` `[heads, rows, d]`, `lse` float32 `[heads, rows]`."""
        if self._is_empty:
            self.out, self.lse, self._is_empty = out, lse, False
            return
        share = torch.sigmoid(lse - self.lse).unsqueeze(-1)
        self.out = torch.lerp(self.out.float(), out.float(), share)
        self.lse = torch.logaddexp(self.lse, lse)


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, is_causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention of `q` [heads, rows, d] over `k`, `v` [kv_heads, keys, d]: result and log-sum-exp [heads, rows].

    `mask` [rows, keys] is 0 where a query may look and -inf elsewhere.
    """
    heads, rows, d = q.shape
    kv_heads, group = k.shape[0], heads // k.shape[0]
    if q.device.type != "cpu":
        return _attend_plainly(q, k, v, scale, is_causal, mask)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    if is_causal or mask is not None:
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        out, lse = flash(q[None], k[None], v[None], 0.0, is_causal, attn_mask=mask, scale=scale)
        return out[0], lse[0]
    # Query heads of one KV head stand side by side as more rows, so K and V need no copies.
    grouped = q.reshape(1, kv_heads, group * rows, d)
    out, lse = flash(grouped, k[None], v[None], 0.0, False, scale=scale)
    return out.reshape(heads, rows, d), lse.reshape(heads, rows)


def _attend_plainly(
    q: Tensor, k: Tensor, v: Tensor, scale: float, is_causal: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`attend` by its definition; the scores of one chunk over one group are all that it builds."""
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    scores = torch.matmul(q, k.transpose(1, 2)).float() * scale
    if is_causal:
        scores += torch.full_like(scores[0], -torch.inf).triu_(1)
    elif mask is not None:
        scores += mask
    lse = torch.logsumexp(scores, dim=-1)
    return torch.matmul(torch.exp(scores - lse.unsqueeze(-1)).to(v.dtype), v), lse
