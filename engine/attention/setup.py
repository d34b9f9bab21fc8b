"""What attention over pages works with, the same in every step; and the choice of far pages, which it all goes into."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from octavo.engine.attention.plan import ReadingPlan
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.far_rows import attend_far_native, takes_pages_of
from octavo.engine.kernels.many_rows import RowAttention, takes_heads_of
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.select import SelectionLimits
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.kv.tiers import Tiers
from octavo.engine.model.rope import RopeTable


class AttentionSetup:
    """Where pages are, which of them are read, and how; `scale` is that of the scores."""

    def __init__(self, tiers: Tiers, plan: ReadingPlan, rope: RopeTable, kernels: Kernels, scale: float) -> None:
        self.tiers = tiers
        self.pool = tiers.device
        self.plan = plan
        self.rope = rope
        self.kernels = kernels
        self.scale = scale
        ops, dim = kernels.native, self.pool.layout.head_dim
        self.attend_rows = RowAttention(ops) if ops and ops.isa == "amx" and takes_heads_of(dim) else None
        takes_pages = self.attend_rows is not None and takes_pages_of(self.pool.layout)
        self.attend_far = partial(attend_far_native, ops) if ops and takes_pages else None
        self.page_angles = rope.cos[: self.pool.page_size], rope.sin[: self.pool.page_size]
        target = plan.mass_target
        self.prompt_limits = SelectionLimits(plan.floor_pages, plan.cap_pages, target)
        # A new token reads all it may; the end of a prompt before it more than that, which costs little.
        self.token_limits = SelectionLimits(plan.cap_pages, plan.cap_pages, target)
        self.question_limits = SelectionLimits(plan.question_cap_pages, plan.question_cap_pages, target)

    def log_sums(self, state: AttentionState) -> Tensor:
        """Log-sum-exp of the scores in a state, float32 `[rows, heads]`: the same to the bit wherever it is taken."""
        ops = self.kernels.native
        if ops is None:
            return state.highest + torch.log(state.total)
        out = torch.empty_like(state.total)
        ops.log_sums(state.highest.data_ptr(), state.total.data_ptr(), out.data_ptr(), out.numel())
        return out

    def select_far(
        self,
        layer: int,
        q: Tensor,
        sequence: SequencePages,
        num_far: Tensor,
        distances: Tensor,
        read: Tensor,
        limits: SelectionLimits,
        looked_at: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Which of its far pages the rows of one sequence read in a layer, of `num_far` int32 [rows]: see
        `select_pages_torch`."""
        assert sequence.far is not None
        sections, page_ids = sequence.far.sections[layer], sequence.far.ids
        return self._select(layer, q, sections, page_ids, num_far, distances, read, limits, looked_at)

    def select_again(
        self, layer: int, q: Tensor, sequence: SequencePages, pages: Tensor, distances: Tensor, read: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`select_far` for one row, of the far pages with the indices `pages` int64 [n] alone, by their sketches."""
        assert sequence.far is not None
        page_ids, num_pages = sequence.far.ids[pages], torch.tensor([len(pages)], dtype=torch.int32, device=q.device)
        at = distances if distances.dim() == 1 else distances[:, pages]
        chosen, counts = self._select(layer, q, None, page_ids, num_pages, at, read, self.token_limits, None)
        return pages[chosen.long()], counts

    def _select(
        self,
        layer: int,
        q: Tensor,
        sections: Tensor | None,
        page_ids: Tensor,
        num_pages: Tensor,
        distances: Tensor,
        read: Tensor,
        limits: SelectionLimits,
        looked_at: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        bounds, rope = self.tiers.bounds, self.rope
        assert bounds is not None
        return self.kernels.select_pages(
            q, bounds.of_layer(layer), sections, bounds.layout, page_ids, num_pages, distances, rope.cos, rope.sin,
            self.scale, read, limits, bounds.scratch, looked_at,
        )  # fmt: skip
