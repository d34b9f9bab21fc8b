"""A loaded model's memory as its engine's thread saw it last: what may cross to the screen's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.engine.gauge import EngineFigures
    from octavo.storage.pages import StoreUsage


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets in bytes. `device` is all that may be taken there, of which `workspace` is for computing; `host` is the
    RAM below it, `disk` what pages may take on the disk. 0 is off.
    """

    device: int
    workspace: int
    host: int
    disk: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine's figures, its budgets and the page store's sizes (None without a store), of one moment."""

    model: str
    engine: EngineFigures
    limits: Limits
    store: StoreUsage | None


def take_snapshot(assistant: Assistant, model: str) -> Snapshot:
    """Measure now. Only for the thread that owns the engine. Raises StorageError."""
    from octavo.engine.gauge import measure

    figures, budgets, store = measure(assistant.engine), assistant.budgets, assistant.store
    if budgets is None:
        limits = Limits(figures.pool, 0, figures.rows.total, 0)
    else:
        # Without a RAM tier there is still the buffer of what is on its way to the disk.
        limits = Limits(
            budgets.vram, budgets.workspace, max(budgets.host_bytes, figures.rows.total), budgets.disk_bytes
        )
    return Snapshot(model, figures, limits, store.usage() if store is not None else None)
