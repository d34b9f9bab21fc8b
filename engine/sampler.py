"""From logits to the next token, one sequence at a time.

Filters and their order are those of transformers' logits processors, so that a policy means the same there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.config import GenerationPolicy
from octavo.engine.kernels.operations import SampleOp
from octavo.engine.kernels.sampling import sample_torch


class Sampler:
    """The random state of one answer. With a seed the choices repeat; without one, a fresh seed is drawn and kept."""

    def __init__(self, policy: GenerationPolicy, sample: SampleOp = sample_torch) -> None:
        self.policy = policy
        self._sample = sample
        self._seen = SeenTokens()
        self._generator = torch.Generator()
        if policy.seed is None:
            self.seed = self._generator.seed() % 2**63
            self._generator.manual_seed(self.seed)
        else:
            self.seed = policy.seed
            self._generator.manual_seed(policy.seed)

    def choose(self, logits: Tensor, token_ids: list[int]) -> int:
        """The next token after `token_ids` (prompt and answer so far), from `logits` float32 [vocab_size], which it
        may change."""
        policy = self.policy
        if policy.repetition_penalty != 1.0:
            seen = self._seen.follow(token_ids).to(logits.device)
            penalize_repetition(logits, seen, policy.repetition_penalty)
        if policy.temperature == 0:
            return int(logits.argmax())
        uniform = float(torch.rand((), generator=self._generator, dtype=torch.float64))
        return self._sample(logits, policy.temperature, policy.top_k, policy.top_p, policy.min_p, uniform)


def penalize_repetition(logits: Tensor, seen: Tensor, penalty: float) -> None:
    """CTRL's repetition penalty (Keskar et al. 2019, arXiv:1909.05858) on the distinct tokens `seen` int64 [n], in
    place."""
    scores = logits.index_select(0, seen)  # five times as fast as logits[seen] for thousands of them
    logits.index_copy_(0, seen, torch.where(scores < 0, scores * penalty, scores / penalty))


class SeenTokens:
    """The distinct tokens of a text that grows: a long one is not gone through for each new token."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._ids = torch.empty(64, dtype=torch.int64)
        self._length = 0

    def follow(self, token_ids: list[int]) -> Tensor:
        """int64 [n]. Of a text that is shorter than the last one all is looked at."""
        if len(token_ids) < self._length:
            self._known.clear()
            self._length = 0
        new = dict.fromkeys(token_ids[self._length :]).keys() - self._known
        start, self._length = len(self._known), len(token_ids)
        self._known |= new
        if len(self._known) > len(self._ids):
            self._ids = torch.cat((self._ids, torch.empty(2 * len(self._known), dtype=torch.int64)))
        if new:
            self._ids[start : len(self._known)] = torch.tensor(sorted(new))
        return self._ids[: len(self._known)]
