"""Which models of the catalogue fit this machine's memory, the larger ones on the hub included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from octavo.app.models.catalogue import CatalogueEntry
from octavo.app.models.text import human_size, human_tokens
from octavo.engine.planner import kv_bytes

DEFAULT_CONTEXT = 8_192
# What a process holds besides weights and KV: the runtime itself, activations of one prefill chunk, logits.
MARGIN_BYTES = 700_000_000
MARGIN_SHARE = 0.05
# Decoding reads every weight once a token; a desktop's two memory channels give about this much.
CPU_BYTES_PER_SECOND = 30e9
SLOW_TOKENS_PER_SECOND = 5.0


@dataclass(frozen=True)
class Memory:
    """Bytes a model could use now: free on the GPU (0 without one) and available in RAM."""

    gpu_free: int
    gpu_name: str | None
    ram_available: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Recommendation:
    """One model against this machine. `runs_on` is "gpu", "cpu" or None, then `reason` says why not."""

    id: str
    name: str
    size: int
    parameters: int
    license: str
    context: int
    weights_bytes: int
    kv_bytes: int
    margin_bytes: int
    total_bytes: int
    runs_on: str | None
    present: bool
    reason: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_memory() -> Memory:
    """What is free now; the GPU with the most free memory counts."""
    from octavo.engine.hardware import measure_gpus, measure_ram

    best = max(measure_gpus(), key=lambda gpu: gpu.free, default=None)
    available = measure_ram().available
    return Memory(0, None, available) if best is None else Memory(best.free, best.name, available)


def headline(memory: Memory, context: int) -> str:
    """What was measured and what room is made for, in one line."""
    gpu = "no NVIDIA GPU"
    if memory.gpu_name is not None:
        gpu = f"{human_size(memory.gpu_free)} free on {memory.gpu_name}"
    ram = f"{human_size(memory.ram_available)} of RAM available"
    return f"This machine: {ram}, {gpu}. Room for {context} tokens of context."


def recommend(
    entries: Iterable[CatalogueEntry],
    memory: Memory,
    present: Iterable[str],
    *,
    context: int = DEFAULT_CONTEXT,
) -> list[Recommendation]:
    """Best first: what fits the GPU, then what runs at a bearable speed on the CPU, then slower, then not."""
    here = frozenset(present)
    found = [_judge(entry, memory, context, entry.id in here) for entry in entries]
    return sorted(found, key=_rank)


def _rank(item: Recommendation) -> tuple[int, int]:
    if item.runs_on is None:
        return 3, item.total_bytes
    if item.runs_on == "gpu":
        return 0, -item.parameters
    return (1 if _cpu_speed(item.size) >= SLOW_TOKENS_PER_SECOND else 2), -item.parameters


def _cpu_speed(size: int) -> float:
    return CPU_BYTES_PER_SECOND / size


def _judge(entry: CatalogueEntry, memory: Memory, context: int, present: bool) -> Recommendation:
    tokens = min(context, entry.context)
    kv = kv_bytes(entry.shape.sizes(), tokens)
    margin = MARGIN_BYTES + round(MARGIN_SHARE * entry.size)
    total = entry.size + kv + margin
    if total <= memory.gpu_free:
        runs_on, reason = "gpu", f"fits the {human_size(memory.gpu_free)} free on {memory.gpu_name}"
    elif total <= memory.ram_available:
        runs_on, reason = "cpu", _on_cpu(entry, memory)
    else:
        runs_on, reason = None, _too_large(total, memory)
    if present:
        reason += "; here already"
    if tokens < context:
        reason += f"; trained on {human_tokens(tokens)} tokens only"
    return Recommendation(
        id=entry.id,
        name=entry.name,
        size=entry.size,
        parameters=entry.parameters,
        license=entry.license,
        context=tokens,
        weights_bytes=entry.size,
        kv_bytes=kv,
        margin_bytes=margin,
        total_bytes=total,
        runs_on=runs_on,
        present=present,
        reason=reason,
    )


def _on_cpu(entry: CatalogueEntry, memory: Memory) -> str:
    speed = _cpu_speed(entry.size)
    slow = f", but slow there: {speed:.0f} tokens/s at best" if speed < SLOW_TOKENS_PER_SECOND else ""
    return f"fits the {human_size(memory.ram_available)} of free RAM{slow}"


def _too_large(total: int, memory: Memory) -> str:
    have = f"{human_size(memory.ram_available)} of RAM"
    if memory.gpu_name is not None:
        have = f"{human_size(memory.gpu_free)} on the GPU or {have}"
    return f"needs {human_size(total)}; there is {have}"
