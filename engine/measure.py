"""What a model really takes: loaded, with pages for a context, computing the last chunk of a full one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from octavo.engine.kernels.dispatch import load_kernels
from octavo.engine.kv.pools import DevicePool
from octavo.engine.planner import MemoryPlan
from octavo.engine.runner import ModelRunner
from octavo.engine.weights.checkpoint import open_checkpoint

if TYPE_CHECKING:
    from octavo.engine.config import ComputeDtype
    from octavo.engine.weights.checkpoint import Quantization


def measure_memory(
    path: Path,
    context: int,
    *,
    page_size: int = 32,
    prefill_chunk: int = 512,
    compute_dtype: ComputeDtype = "auto",
    device: str = "cpu",
    quantization: Quantization = "auto",
) -> MemoryPlan:
    """Bytes that the loaded model's tensors hold, to be compared with `plan_memory`; pages are bfloat16.

    The workspace is the most that torch had allocated at one time for computing the chunk, and the angle
    table. Raises as `open_checkpoint` does.
    """
    checkpoint = open_checkpoint(path, device=device, quantization=quantization)
    num_pages = -(-context // page_size)
    pool = DevicePool(checkpoint.spec, num_pages, page_size, torch.bfloat16, device)
    pool.slab.zero_()
    for page in range(num_pages):
        pool.place(page)
    dtype = torch.float32 if compute_dtype == "float32" else torch.bfloat16
    runner = ModelRunner(checkpoint, load_kernels(device), pool, context, dtype)
    start = max(0, context - prefill_chunk) // page_size * page_size
    token_ids = [0] * min(prefill_chunk, context - start)

    def compute() -> None:
        hidden = runner.prefill(token_ids, start, list(range(num_pages)))
        runner.logits(hidden[-1:])

    peak = _peak_on_cuda(compute) if torch.device(device).type == "cuda" else _peak_on_cpu(compute)
    return MemoryPlan("bf16", checkpoint.nbytes, pool.slab.nbytes, peak + runner.rope.nbytes)


@torch.inference_mode()
def _peak_on_cpu(work: Callable[[], None]) -> int:
    """The most bytes allocated by torch during `work`, beyond what was there before."""
    from torch.profiler import ProfilerActivity, profile

    # The profiler's library would write to stderr when it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    assert profiler.profiler is not None
    held = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


@torch.inference_mode()
def _peak_on_cuda(work: Callable[[], None]) -> int:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
