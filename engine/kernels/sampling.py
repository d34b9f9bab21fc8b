"""Drawing the next token from what top-k, top-p and min-p leave.

What stays is said by one number, the lowest logit that does: tokens that are as likely as one that stays, stay too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.kernels.checks import require, require_shape

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops


def sample_torch(logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float, uniform: float) -> int:
    """A token drawn from the softmax of `logits` float32 [vocab_size] / `temperature`, which is above 0.

    Filters as in GenerationPolicy. Tokens share the numbers from 0 to 1 in the order of their ids, each as many as it
    is likely; the one returned has the number `uniform`, which is below 1.
    """
    scaled = logits / temperature
    kept = scaled >= lowest_kept(scaled, top_k, top_p, min_p)
    weights = torch.softmax(scaled.masked_fill(~kept, -torch.inf).double(), dim=-1)
    ends = weights.cumsum(0)
    drawn = int(torch.searchsorted(ends, uniform * ends[-1:], right=True))
    return min(drawn, int(kept.nonzero()[-1]))


def lowest_kept(logits: Tensor, top_k: int, top_p: float, min_p: float) -> Tensor:
    """The lowest of `logits` float32 [vocab_size] that the filters leave, one after the other.

    top-p is nucleus sampling (Holtzman et al. 2019, arXiv:1904.09751), min-p that of Nguyen et al. 2024
    (arXiv:2407.01082). The most likely token always stays.
    """
    vocabulary = logits.shape[0]
    ordered = logits.topk(min(top_k or vocabulary, vocabulary)).values
    if top_p < 1.0:
        probabilities = torch.softmax(ordered, dim=-1)
        before = probabilities.cumsum(0) - probabilities
        ordered = ordered[: max(int((before < top_p).sum()), 1)]
    if min_p > 0.0:
        return torch.maximum(ordered[-1], ordered[0] + math.log(min_p))
    return ordered[-1]


def sample_native(
    ops: Ops, logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float, uniform: float
) -> int:
    """`sample_torch` in C, on the CPU."""
    require("sample", torch.float32, logits)
    require_shape("sample", "logits", logits, logits.numel())
    return ops.sample(logits.data_ptr(), logits.numel(), temperature, top_k, top_p, min_p, uniform)
