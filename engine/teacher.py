"""Logits of a text that is given token by token, and how far two engines' are from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from octavo.engine.engine import Engine

Logits = NDArray[np.float32]

TOLERANCE = 1.0
"""Between the likeliest token and the next: quantized activations move logits by some tenths."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the likeliest tokens of two engines agree over `positions`, of which `decisive` have a margin in the first
    that is above `TOLERANCE`; `max_difference` and `mean_difference` are of all logits, absolute."""

    positions: int
    decisive: int
    agreeing: int
    decisive_agreeing: int
    max_difference: float
    mean_difference: float

    @property
    def is_sound(self) -> bool:
        return self.decisive > 0 and self.decisive_agreeing == self.decisive


def compare(ours: Logits, theirs: Logits) -> Agreement:
    """float32 [positions, vocab_size] twice."""
    best = np.partition(ours, -2, axis=1)[:, -2:]
    decisive = best[:, 1] - best[:, 0] > TOLERANCE
    agrees = ours.argmax(axis=1) == theirs.argmax(axis=1)
    difference = np.abs(ours - theirs)
    return Agreement(
        len(ours),
        int(decisive.sum()),
        int(agrees.sum()),
        int((agrees & decisive).sum()),
        float(difference.max()),
        float(difference.mean()),
    )


@torch.inference_mode()
def forced_logits(engine: Engine, token_ids: Sequence[int], first: int) -> Logits:
    """float32 [len(token_ids) - first, vocab_size]: after each token from `first` on, decoded one by one, as answers.

    `first` is a multiple of the page size; the tokens before it are prefilled, in one chunk. The pages are given back.
    """
    cache, runner, ids = engine.cache, engine._runner, list(token_ids)
    pages = cache.open(ids, "teacher")
    try:
        start = pages.num_complete * cache.page_size
        if start < first:
            cache.begin_step([pages])
            cache.begin_chunk(pages, (first - start) // cache.page_size)
            runner.prefill(ids[start:first], start, pages)
            cache.publish(pages, ids, first)
        rows = []
        for position in range(first, len(ids)):
            cache.begin_step([pages])
            hidden = runner.decode([ids[position]], [position], [pages])
            rows.append(runner.logits(hidden)[0].cpu().numpy().copy())
            cache.publish(pages, ids, position + 1)
    finally:
        cache.close(pages)
    return np.stack(rows)
