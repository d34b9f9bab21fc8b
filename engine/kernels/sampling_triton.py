"""Drawing the next token in Triton: logits stay on the GPU, and one number leaves it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from octavo.engine.kernels.triton_jit import FUSED, constexpr, jit, tensor, tl

_BLOCK = 4096


def sample_triton(logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float, uniform: float) -> int:
    """`sample_torch` in Triton."""
    count, logits = logits.numel(), logits.contiguous()
    token = torch.empty(1, dtype=torch.int32, device=logits.device)
    below = -math.inf if min_p <= 0 else temperature * math.log(min_p)
    cuts = top_k if 0 < top_k < count else 0
    _sample[(1,)](
        logits, token, count, 1 / temperature, cuts, float(top_p), below, float(uniform),
        has_k=cuts > 0, has_p=top_p < 1, block=_BLOCK, **FUSED,
    )  # fmt: skip
    return int(token)


@jit
def _keys(logits: tensor, start: tensor, count: tensor, block: constexpr) -> tuple[tensor, tensor, tensor]:
    """Of a block of tokens the ids, the logits, and integers in the order of these."""
    at = start + tl.arange(0, block)
    x = tl.load(logits + at, mask=at < count, other=-float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    return at, x, (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)


@jit
def _sample(
    logits: tensor,
    token: tensor,
    count: tensor,
    inverse: tensor,
    top_k: tensor,
    top_p: tensor,
    below: tensor,
    uniform: tensor,
    has_k: constexpr,
    has_p: constexpr,
    block: constexpr,
) -> None:
    """All tokens of one sequence. What stays is found by halving, over and over, the range of its lowest key."""
    most = tl.full((), -float("inf"), tl.float32)
    for start in range(0, count, block):
        at, x, key = _keys(logits, start, count, block)
        most = tl.maximum(most, tl.max(x, 0))
    least = tl.full((), -(2**31), tl.int64)
    if has_k:  # the highest key that top_k tokens reach
        end = tl.full((), 2**31 - 1, tl.int64)
        for _turn in range(32):
            middle = (least + end + 1) >> 1
            reached = tl.full((), 0, tl.int32)
            for start in range(0, count, block):
                at, x, key = _keys(logits, start, count, block)
                reached += tl.sum(((key >= middle) & (at < count)).to(tl.int32), 0)
            least = tl.where(reached >= top_k, middle, least)
            end = tl.where(reached >= top_k, end, middle - 1)
    if has_p:  # the lowest key above which there is less than top_p
        total = tl.full((), 0, tl.float32)
        for start in range(0, count, block):
            at, x, key = _keys(logits, start, count, block)
            total += tl.sum(tl.where(key >= least, tl.exp((x - most) * inverse), 0.0), 0)
        end = tl.full((), 2**31 - 1, tl.int64)
        for _turn in range(32):
            middle = (least + end) >> 1
            above = tl.full((), 0, tl.float32)
            for start in range(0, count, block):
                at, x, key = _keys(logits, start, count, block)
                above += tl.sum(tl.where(key > middle, tl.exp((x - most) * inverse), 0.0), 0)
            end = tl.where(above < top_p * total, middle, end)
            least = tl.where(above < top_p * total, least, middle + 1)
    lowest = most + below
    mass = tl.full((), 0, tl.float32)
    for start in range(0, count, block):
        at, x, key = _keys(logits, start, count, block)
        mass += tl.sum(tl.where((key >= least) & (x >= lowest), tl.exp((x - most) * inverse), 0.0), 0)
    before, drawn, last = tl.full((), 0, tl.float32), count + 0, tl.full((), 0, tl.int32)
    for start in range(0, count, block):
        at, x, key = _keys(logits, start, count, block)
        stays = (key >= least) & (x >= lowest) & (at < count)
        weight = tl.where(stays, tl.exp((x - most) * inverse), 0.0)
        passed = stays & (before + tl.cumsum(weight, 0) > uniform * mass)
        drawn = tl.minimum(drawn, tl.min(tl.where(passed, at, count), 0))
        last = tl.maximum(last, tl.max(tl.where(stays, at, 0), 0))
        before += tl.sum(weight, 0)
    tl.store(token, tl.minimum(drawn, last))
