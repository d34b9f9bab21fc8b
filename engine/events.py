"""What the engine tells its caller: frozen values that may cross threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from octavo.engine.config import GenerationPolicy

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class AnswerMetrics:
    """Where the time of one answer went. Times in seconds, inter-token latencies in milliseconds.

    Of the prompt's tokens `reused_tokens` had been read before: their pages were found on the device, on the host or
    on disk. `computed_tokens` are those that were computed for this answer, before its first token and again where
    a page was lost. `prefill_s` is computing time, `ttft_s` the wait for the first token from submission on;
    `tokens_per_s` is the rate after the first token. Figures that need two tokens are 0 where there are fewer.
    """

    prompt_tokens: int
    reused_tokens: int
    reused_device: int
    reused_host: int
    reused_disk: int
    computed_tokens: int
    generated_tokens: int
    queue_s: float
    prefill_s: float
    ttft_s: float
    itl_p50_ms: float
    itl_p95_ms: float
    tokens_per_s: float
    e2e_s: float
    itl_p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class PagesRead:
    """The complete pages of an answer at its end: `total` of `page_size` tokens, and the nearest tier of each.

    The first page and the last `window` ones are read with every token; a `dense` end read all. `chosen` has, of the
    pages in between that were selected, the place in the conversation and how many times a layer chose it, the most
    often chosen first; `num_chosen` is how many there were of them.
    """

    total: int
    page_size: int
    device: int
    host: int
    disk: int
    dense: bool
    window: int
    num_chosen: int
    chosen: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One generated token. A token that ends the answer is not announced."""

    request_id: int
    token_id: int


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The last event of a request; `policy` holds the seed that was used, `error` the reason after an error.

    `pages` is None for a request that never ran.
    """

    request_id: int
    finish_reason: FinishReason
    metrics: AnswerMetrics
    policy: GenerationPolicy
    error: str | None = None
    pages: PagesRead | None = None


Event = TokenEvent | DoneEvent


def percentile(values: list[float], share: float) -> float:
    """Nearest-rank percentile; 0.0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
