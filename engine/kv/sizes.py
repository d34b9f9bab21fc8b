"""How budgets become slots and rows, and what a page takes of them."""

from __future__ import annotations

from octavo.engine.config import STREAM_PAGES, EngineConfig
from octavo.engine.errors import ContextTooLongError
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import PageLayout
from octavo.engine.model.spec import ModelSpec


def num_records(layout: PageLayout, num_layers: int, bounds: BoundsLayout | None) -> int:
    """Records of `slot_bytes` that a whole page is below the device: its layers, and its bounds."""
    if bounds is None:
        return num_layers
    return num_layers + -(-num_layers * bounds.page_bytes // layout.slot_bytes)


def num_rows(config: EngineConfig, page_bytes: int, *, writes: bool) -> int:
    """Host rows: what the budget holds, and never fewer than writing down needs to go on beside computing."""
    budget = config.host_bytes // page_bytes
    buffer = 2 * config.prefill_chunk // config.page_size + config.max_sequences
    return max(budget, buffer) if writes else budget


def num_slots(
    spec: ModelSpec, config: EngineConfig, layout: PageLayout, tail_itemsize: int, *, has_lower_tier: bool
) -> tuple[int, int]:
    """Slots of pages, and slots to stream through, that the device budget holds.

    Raises ContextTooLongError where it holds less than can run.
    """
    num_stream = STREAM_PAGES if has_lower_tier else 0
    whole_context = -(-(config.context or spec.context_length) // config.page_size) * spec.num_layers
    if config.kv_bytes is None:
        return whole_context, num_stream
    tail = 2 * layout.num_kv_heads * layout.page_size * layout.head_dim * tail_itemsize
    tails = config.max_sequences * spec.num_layers * tail
    fixed = tails + num_stream * layout.slot_bytes
    slots = (config.kv_bytes - fixed) // layout.slot_bytes
    least = 0 if has_lower_tier else spec.num_layers
    if slots < least:
        raise ContextTooLongError(
            f"The KV budget of {config.kv_bytes:,} bytes is less than this model needs to run, "
            f"{fixed + least * layout.slot_bytes:,} bytes; raise vram."
        )
    return slots, num_stream
