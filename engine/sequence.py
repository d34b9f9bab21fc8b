"""One request on its way through the engine: its tokens, its pages, its clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import pairwise

from octavo.engine.config import GenerationPolicy
from octavo.engine.events import AnswerMetrics, percentile
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.sampler import Sampler


@dataclass(slots=True, eq=False)
class Sequence:
    """State of a request. `num_computed` tokens have their K and V in `pages`; `limit` is the longest it may get.

    `num_known` tokens can be computed as chunks: the prompt, and what had been generated when a page was lost.
    `most_rows` bounds its chunks below the configured size, once memory for a larger one was not there.
    """

    request_id: int
    token_ids: list[int]
    num_prompt: int
    limit: int
    owner: str
    eos_ids: frozenset[int]
    sampler: Sampler
    pages: SequencePages | None = None
    reused: dict[str, int] = field(default_factory=lambda: {"device": 0, "host": 0, "disk": 0})
    num_computed: int = 0
    num_known: int = field(init=False)
    num_chunked: int = 0
    num_rewinds: int = 0
    most_rows: int | None = None
    submitted: float = field(default_factory=time.perf_counter)
    admitted: float = 0.0
    prefill_s: float = 0.0
    token_times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.num_known = self.num_prompt

    @property
    def num_generated(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def is_prefilling(self) -> bool:
        return self.num_computed < self.num_known

    @property
    def running_pages(self) -> SequencePages:
        """`pages`, which an admitted sequence has."""
        assert self.pages is not None, "the sequence is running"
        return self.pages

    @property
    def num_pages(self) -> int:
        """Complete pages of an admitted sequence."""
        return len(self.pages.page_ids) if self.pages else 0

    @property
    def policy(self) -> GenerationPolicy:
        """The policy as it was applied, with the seed that was used."""
        return replace(self.sampler.policy, seed=self.sampler.seed)

    def metrics(self) -> AnswerMetrics:
        """Figures of this request up to now."""
        now, times = time.perf_counter(), self.token_times
        reused = self.reused
        gaps = [(after - before) * 1e3 for before, after in pairwise(times)]
        decode_s = times[-1] - times[0] if len(times) > 1 else 0.0
        return AnswerMetrics(
            prompt_tokens=self.num_prompt,
            reused_tokens=sum(reused.values()),
            reused_device=reused["device"],
            reused_host=reused["host"],
            reused_disk=reused["disk"],
            computed_tokens=self.num_chunked,
            generated_tokens=self.num_generated,
            queue_s=(self.admitted or now) - self.submitted,
            prefill_s=self.prefill_s,
            ttft_s=times[0] - self.submitted if times else 0.0,
            itl_p50_ms=percentile(gaps, 0.50),
            itl_p95_ms=percentile(gaps, 0.95),
            itl_p99_ms=percentile(gaps, 0.99),
            tokens_per_s=len(gaps) / decode_s if decode_s else 0.0,
            e2e_s=now - self.submitted,
        )
