"""How much of a sequence attention reads for a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.engine.engine import Engine


def pages_read(engine: Engine, request_id: int) -> tuple[int, int] | None:
    """Complete pages read for the newest token, by the layer that read the most, and all there are.

    None for a request that does not run.
    """
    sequence = engine._scheduler.find(request_id)
    if sequence is None or sequence.pages is None:
        return None
    pages, plan = sequence.pages, engine.cache.plan
    total = len(pages.page_ids)
    if plan.is_dense(sequence.num_computed - 1):
        return total, total
    window = total - plan.first_of_window(total)
    selected = max((len(chosen) for chosen in pages.selected.values()), default=0)
    return min(1 + window + selected, total), total
