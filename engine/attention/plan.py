"""Which pages a query at a position reads, and at which distance: by model and settings alone, never by budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octavo.engine.config import STREAM_PAGES, EngineConfig
from octavo.engine.errors import ContextTooLongError
from octavo.engine.kv.pools import Ids
from octavo.engine.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The settings of AttentionConfig in pages, for one model.

    Positions below `dense_limit`, a page boundary, read everything; `is_sparse` says whether any lie above it. From
    `trained` on no distance is larger than the model was trained on: pages outside the window stand at the distance
    `far_distance` when they are scored, and also when they are read ("one angle": InfLLM, Xiao et al. 2024,
    arXiv:2402.04617), or else, if they are `closed_up`, side by side in their order up to the window (as in HiP, Lee et
    al. 2024, arXiv:2406.09827). The first page stands before all places that there are for them.
    """

    page_size: int
    is_sparse: bool
    dense_limit: int
    trained: int
    window_pages: int
    floor_pages: int
    cap_pages: int
    question_cap_pages: int
    mass_target: float
    question_pages: int
    far_distance: int
    closed_up: bool

    @classmethod
    def of(cls, spec: ModelSpec, config: EngineConfig) -> ReadingPlan:
        """Raises ContextTooLongError where the settings do not fit the model or each other."""
        attention, page = config.attention, config.page_size
        trained, window_pages = spec.context_length // page * page, -(-attention.window // page)
        closed_up = attention.far_positions == "closed up"
        # The first page is read with the selected ones, and all of them at once.
        most_pages = STREAM_PAGES - 1
        if closed_up:  # and they stand beside the window and the query's page within the trained length
            most_pages = min(most_pages, trained // page - window_pages - 2)
        limit = trained if attention.dense_limit is None else min(attention.dense_limit // page * page, trained)
        plan = cls(
            page_size=page,
            is_sparse=(config.context or spec.context_length) > (spec.context_length if limit == trained else limit),
            dense_limit=limit,
            trained=trained,
            window_pages=window_pages,
            floor_pages=max(1, min(attention.floor // page - 1, most_pages)),
            cap_pages=max(1, min(attention.cap // page - 1, most_pages)),
            question_cap_pages=max(1, min(attention.question_cap // page - 1, most_pages)),
            mass_target=attention.mass_target,
            question_pages=-(-attention.question // page),
            far_distance=(window_pages + 1) * page,
            closed_up=closed_up,
        )
        chunk, largest = config.prefill_chunk, spec.context_length - config.prefill_chunk - page
        if plan.is_sparse and not chunk <= attention.window <= largest:
            raise ContextTooLongError(
                f"The attention window is {attention.window:,} tokens; with a prefill_chunk of {chunk:,} it must be "
                f"from {chunk:,} to {largest:,} for {spec.name}."
            )
        return plan

    def first_of_window(self, page: int) -> int:
        """The first page of the window of a query in page number `page`."""
        return max(1, page - self.window_pages)

    def first_of_question(self, num_tokens: int) -> int:
        """The first page of a prompt's last tokens, which read as a question does: of complete pages and the rest."""
        return max(0, num_tokens // self.page_size - self.question_pages)

    def is_dense(self, position: int) -> bool:
        return not self.is_sparse or position < self.dense_limit

    @property
    def far_end(self) -> int:
        """Where the window begins while pages are closed up: after the first page and all that can be selected."""
        return (self._places + 1) * self.page_size

    @property
    def _places(self) -> int:
        return max(self.cap_pages, self.question_cap_pages)

    def far_starts(self, count: int) -> Ids:
        """Where the first page and `count` selected ones begin while they are closed up, in tokens."""
        places = np.arange(self._places + 1 - count, self._places + 1)
        starts: Ids = np.concatenate(([0], places)) * self.page_size
        return starts
