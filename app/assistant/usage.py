"""Where the tokens of a prompt came from, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.engine.events import AnswerMetrics


def describe_reading(metrics: AnswerMetrics, device: str = "cpu") -> str:
    """How a prompt was read, such as "12,416 tokens from disk, 27 read again, 0.4 s"; the time is that to the answer.

    On a CPU the device's pages are in memory like the host's.
    """
    reused = {"device": metrics.reused_device, "host": metrics.reused_host, "disk": metrics.reused_disk}
    return _in_words(reused, metrics.computed_tokens, metrics.ttft_s or metrics.prefill_s, device)


def describe_record(record: Mapping[str, Any]) -> str:
    """`describe_reading` for an answer as it was stored; empty where its record does not say."""
    usage, timings = record.get("usage") or {}, record.get("timings") or {}
    reused, computed = usage.get("reused_from"), usage.get("computed_tokens")
    if reused is None or computed is None:
        return ""
    seconds = timings.get("ttft_s") or timings.get("prefill_s") or 0.0
    return _in_words(reused, computed, seconds, record.get("device", "cpu"))


def _in_words(reused: Mapping[str, int], computed: int, seconds: float, device: str) -> str:
    """`reused` has the tokens found on "device", "host" and "disk"."""
    sources = {"memory": reused["host"], "disk": reused["disk"]}
    if device.startswith("cuda"):
        sources = {"the GPU": reused["device"], **sources}
    else:
        sources["memory"] += reused["device"]
    parts = [f"{count:,} token{'s' * (count != 1)} from {place}" for place, count in sources.items() if count]
    if not parts:
        parts = [f"{computed:,} token{'s' * (computed != 1)} read"]
    elif computed:
        parts.append(f"{computed:,} read again")
    return ", ".join([*parts, f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"])
