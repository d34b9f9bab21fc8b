"""Where the tokens of a prompt came from, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.engine.events import AnswerMetrics


def describe_reading(metrics: AnswerMetrics, device: str = "cpu") -> str:
    """How a prompt was read, such as "12,416 tokens from disk, 27 read again, 0.4 s"; the time is that to the answer.

    On a CPU the device's pages are in memory like the host's.
    """
    sources = {"memory": metrics.reused_host, "disk": metrics.reused_disk}
    if device.startswith("cuda"):
        sources = {"the GPU": metrics.reused_device, **sources}
    else:
        sources["memory"] += metrics.reused_device
    parts = [f"{count:,} tokens from {place}" for place, count in sources.items() if count]
    if not parts:
        parts = [f"{metrics.computed_tokens:,} token{'s' * (metrics.computed_tokens != 1)} read"]
    elif metrics.computed_tokens:
        parts.append(f"{metrics.computed_tokens:,} read again")
    seconds = metrics.ttft_s or metrics.prefill_s
    return ", ".join([*parts, f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"])
