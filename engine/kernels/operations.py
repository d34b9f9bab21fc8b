"""The operations that kernels implement, as the decoder and attention call them."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from octavo.engine.kernels.bounds import PageBounds
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.select import SelectionLimits, SelectionScratch
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import PageLayout
from octavo.engine.weights.matrix import Weight


class LinearOp(Protocol):
    """See `linear_torch`."""

    def __call__(self, x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None], /) -> list[Tensor]: ...


class RmsNormOp(Protocol):
    """See `rms_norm_torch`."""

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        eps: float,
        residual: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor: ...


class SiluMulOp(Protocol):
    """See `silu_mul_torch`."""

    def __call__(self, gate: Tensor, up: Tensor, dtype: torch.dtype | None = None) -> Tensor: ...


class WriteKvOp(Protocol):
    """See `write_kv_torch`."""

    def __call__(
        self, slab: Tensor, slots: Tensor, offsets: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
    ) -> None: ...


class EncodePagesOp(Protocol):
    """See `encode_pages_torch`."""

    def __call__(self, kv: Tensor, layout: PageLayout, /) -> Tensor: ...


class GatherPagesOp(Protocol):
    """See `gather_pages_torch`."""

    def __call__(
        self,
        slab: Tensor,
        layout: PageLayout,
        slots: Tensor,
        starts: Tensor,
        cos: Tensor,
        sin: Tensor,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]: ...


class AttendPagesOp(Protocol):
    """See `attend_pages_torch`."""

    def __call__(
        self,
        q: Tensor,
        slab: Tensor,
        layout: PageLayout,
        slots: Tensor,
        distances: Tensor,
        num_pages: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
        state: AttentionState,
        fresh: bool,
    ) -> None: ...


class AttendTailOp(Protocol):
    """See `attend_tail_torch`."""

    def __call__(
        self,
        q: Tensor,
        tails: Tensor,
        layout: PageLayout,
        tail_slots: Tensor,
        tail_tokens: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
        state: AttentionState,
    ) -> Tensor: ...


class SampleOp(Protocol):
    """See `sample_torch`."""

    def __call__(
        self, logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float, uniform: float, /
    ) -> int: ...


class PageBoundsOp(Protocol):
    """See `page_bounds_torch`."""

    def __call__(self, encoded: Tensor, pages: PageLayout, layout: BoundsLayout) -> Tensor: ...


class SectionBoundsOp(Protocol):
    """See `section_bounds_torch`."""

    def __call__(self, boxes: Tensor, layout: BoundsLayout, page_ids: Tensor) -> Tensor: ...


class SelectPagesOp(Protocol):
    """See `select_pages_torch`."""

    def __call__(
        self,
        q: Tensor,
        bounds: PageBounds,
        sections: Tensor | None,
        layout: BoundsLayout,
        page_ids: Tensor,
        num_pages: Tensor,
        distances: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
        read: Tensor | None,
        limits: SelectionLimits,
        scratch: SelectionScratch,
        looked_at: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...
