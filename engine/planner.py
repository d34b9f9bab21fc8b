"""How much memory a model needs at a context length, computed from its shapes alone.

Nothing is loaded: this is arithmetic, and works without torch. What a file says about itself is read by
`weight_sizes`; what computing needs besides weights and pages is counted in `workspace`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.engine.config import STREAM_PAGES
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.workspace import ModelSizes, RunSizes, workspace_bytes

CODEC_NAMES = ("bf16", "k8v8", "k8v4", "k4v4")

_PLAIN = RunSizes()


@dataclass(frozen=True)
class PlainSizes:
    """ModelSizes of a model whose file is not here."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a model needs with one KV codec.

    On the device: `weights`; `kv`, the slots of the complete pages that are kept there; `tails`, the unfinished pages
    and the slots that others pass through; `workspace`. Below it `host` is what all pages take as rows of RAM.
    """

    codec: str
    weights: int
    kv: int
    tails: int
    workspace: int
    host: int = 0

    @property
    def total(self) -> int:
        """On the device."""
        return self.weights + self.kv + self.tails + self.workspace


def page_layout(sizes: ModelSizes, codec: str, page_size: int = _PLAIN.page_size) -> PageLayout:
    """How a page of one layer is stored. Raises ValueError for a head size that no codec takes."""
    return PageLayout(CODECS[codec], sizes.num_kv_heads, page_size, sizes.head_dim)


def kv_bytes(sizes: ModelSizes, tokens: int, codec: str = "bf16", page_size: int = _PLAIN.page_size) -> int:
    """Bytes of the complete pages of `tokens` tokens, the last one filled up, over all layers."""
    return -(-tokens // page_size) * sizes.num_layers * page_layout(sizes, codec, page_size).slot_bytes


def bounds_bytes(sizes: ModelSizes, context: int, page_size: int) -> int:
    """Bytes of the bounds of every page, and of every section, that selection looks at."""
    layout = BoundsLayout(sizes.num_kv_heads, page_size, sizes.head_dim)
    pages = -(-context // page_size)
    return sizes.num_layers * (pages * layout.page_bytes + -(-pages // SECTION_PAGES) * layout.section_bytes)


def tail_bytes(sizes: ModelSizes, codec: str, run: RunSizes = _PLAIN, *, has_lower_tier: bool = True) -> int:
    """Bytes of the pool that hold no complete page: an unfinished one of each sequence, in the type it is computed in,
    and, where there is a tier below, one attention group of slots that pages pass through.
    """
    tail = page_layout(sizes, "f32" if codec == "f32" else "bf16", run.page_size)
    unpadded = 2 * tail.num_kv_heads * tail.page_size * tail.head_dim * tail.codec.key_bits // 8
    stream = STREAM_PAGES * page_layout(sizes, codec, run.page_size).slot_bytes if has_lower_tier else 0
    return run.max_sequences * sizes.num_layers * unpadded + stream


def smallest_pool_bytes(sizes: ModelSizes, codec: str, run: RunSizes = _PLAIN) -> int:
    """Bytes of the smallest pool worth running: one page beside what holds none."""
    return tail_bytes(sizes, codec, run) + kv_bytes(sizes, run.page_size, codec, run.page_size)


def write_buffer_bytes(sizes: ModelSizes, codec: str, run: RunSizes = _PLAIN) -> int:
    """RAM that pages wait in to be written to disk, where there is no larger host tier: two chunks and the tails."""
    num_rows = 2 * run.prefill_chunk // run.page_size + run.max_sequences
    return num_rows * kv_bytes(sizes, run.page_size, codec, run.page_size)


def plan_memory(
    sizes: ModelSizes,
    weight_bytes: int,
    context: int,
    *,
    hot: int | None = None,
    run: RunSizes = _PLAIN,
    codecs: Sequence[str] = CODEC_NAMES,
) -> list[MemoryPlan]:
    """What a context needs with each codec, in tokens: `context` of them, `hot` (all, if None) on the device."""
    near = context if hot is None else min(hot, context)
    return [
        MemoryPlan(
            codec=codec,
            weights=weight_bytes,
            kv=kv_bytes(sizes, near, codec, run.page_size),
            tails=tail_bytes(sizes, codec, run, has_lower_tier=near < context),
            workspace=workspace_bytes(sizes, context, codec, run),
            host=kv_bytes(sizes, context, codec, run.page_size) if near < context else 0,
        )
        for codec in codecs
    ]
