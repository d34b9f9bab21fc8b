"""What becomes of a forward pass that fails: lost pages are computed again, scarce memory makes steps smaller."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from octavo.engine.config import EngineConfig
from octavo.engine.errors import EngineError
from octavo.engine.kv.cache import KvCache
from octavo.engine.kv.loading import PageLostError
from octavo.engine.scheduler import Scheduler
from octavo.engine.sequence import Sequence

T = TypeVar("T")

_MOST_REWINDS = 8


class Recovery:
    """Runs forward passes. What goes wrong in one costs at most the answers in it, and those only as a last resort.

    `give_up` ends an answer with one sentence that says why.
    """

    def __init__(
        self, cache: KvCache, scheduler: Scheduler, config: EngineConfig, give_up: Callable[[Sequence, str], None]
    ) -> None:
        self._cache = cache
        self._scheduler = scheduler
        self._config = config
        self._give_up = give_up
        self.most_rows = config.max_sequences
        """Sequences that decode together; fewer once memory for them was not there."""

    def attempt(self, sequences: list[Sequence], compute: Callable[[], list[T]]) -> list[T]:
        """What `compute`, a pass over `sequences`, returns; nothing where it failed."""
        try:
            return compute()
        except PageLostError as lost:
            self._compute_again(lost)
        except Exception as error:
            if not (is_out_of_memory(error) and self._take_smaller_steps(sequences)):
                for sequence in sequences:
                    self._give_up(sequence, in_words(error))
        return []

    def _compute_again(self, lost: PageLostError) -> None:
        """Take every running sequence that has one of these pages back to where it begins."""
        for sequence in self._scheduler.running:
            pages = sequence.running_pages
            kept = next((i for i, page in enumerate(pages.page_ids) if page in lost.pages), None)
            if kept is None:
                continue
            sequence.num_rewinds += 1
            if sequence.num_rewinds > _MOST_REWINDS:
                self._give_up(sequence, f"The pages of this conversation cannot be read back: {lost}")
                continue
            self._cache.truncate(pages, kept)
            sequence.num_computed = kept * self._config.page_size
            sequence.num_known = len(sequence.token_ids)

    def _take_smaller_steps(self, sequences: list[Sequence]) -> bool:
        """After an allocation failed: give caches back, and try with half as many rows. False at the smallest."""
        free_caches()
        for sequence in sequences:
            pages = sequence.running_pages
            self._cache.truncate(pages, pages.num_complete)
        first = sequences[0]
        if first.is_prefilling:
            rows = min(first.most_rows or self._config.prefill_chunk, first.num_known - first.num_computed)
            first.most_rows = rows // 2 // self._config.page_size * self._config.page_size
            return first.most_rows > 0
        self.most_rows = min(self.most_rows, len(sequences)) // 2
        if self.most_rows:
            return True
        self.most_rows = 1
        return False


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the device or in RAM."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # torch reports a failed allocation in RAM as a plain RuntimeError.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in str(error)


def free_caches() -> None:
    """Return to the system what torch and Python keep for later."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def in_words(error: Exception) -> str:
    """One sentence for whoever waits for the answer."""
    if is_out_of_memory(error):
        return "Memory ran out, even for the smallest step: close other programs, or take a smaller model or vram."
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
