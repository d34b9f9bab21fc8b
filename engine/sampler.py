"""From logits to the next token, one sequence at a time.

Filters and their order are those of transformers' logits processors, so that a policy means the same there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.config import GenerationPolicy


class Sampler:
    """The random state of one answer. With a seed the choices repeat; without one, a fresh seed is drawn and kept."""

    def __init__(self, policy: GenerationPolicy) -> None:
        self.policy = policy
        self._generator = torch.Generator()
        if policy.seed is None:
            self.seed = self._generator.seed() % 2**63
            self._generator.manual_seed(self.seed)
        else:
            self.seed = policy.seed
            self._generator.manual_seed(policy.seed)

    def choose(self, logits: Tensor, token_ids: list[int]) -> int:
        """The next token after `token_ids` (prompt and answer so far), from `logits` float32 [vocab_size]."""
        policy = self.policy
        logits = logits.cpu()
        if policy.repetition_penalty != 1.0:
            logits = penalize_repetition(logits, token_ids, policy.repetition_penalty)
        if policy.temperature == 0:
            return int(logits.argmax())
        candidates, logits = filter_candidates(logits / policy.temperature, policy)
        probabilities = torch.softmax(logits, dim=-1)
        return int(candidates[torch.multinomial(probabilities, 1, generator=self._generator)])


def penalize_repetition(logits: Tensor, token_ids: list[int], penalty: float) -> Tensor:
    """CTRL's repetition penalty (Keskar et al. 2019, arXiv:1909.05858) on every token seen: a copy of `logits`."""
    seen = torch.tensor(sorted(set(token_ids)), dtype=torch.int64)
    scores = logits[seen]
    penalized = torch.where(scores < 0, scores * penalty, scores / penalty)
    return logits.index_copy(0, seen, penalized)


def filter_candidates(logits: Tensor, policy: GenerationPolicy) -> tuple[Tensor, Tensor]:
    """Tokens that top-k, top-p and min-p leave, in descending order of their logits, with those logits.

    top-p is nucleus sampling (Holtzman et al. 2019, arXiv:1904.09751), min-p that of Nguyen et al. 2024
    (arXiv:2407.01082). The most likely token always stays.
    """
    vocabulary = logits.shape[0]
    kept = min(policy.top_k or vocabulary, vocabulary)
    logits, candidates = logits.topk(kept)
    if policy.top_p < 1.0:
        probabilities = torch.softmax(logits, dim=-1)
        before = probabilities.cumsum(0) - probabilities
        count = max(int((before < policy.top_p).sum()), 1)
        logits, candidates = logits[:count], candidates[:count]
    if policy.min_p > 0.0:
        probabilities = torch.softmax(logits, dim=-1)
        count = max(int((probabilities >= policy.min_p * probabilities[0]).sum()), 1)
        logits, candidates = logits[:count], candidates[:count]
    return candidates, logits
