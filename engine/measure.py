"""What a model really takes: loaded, with pages for a context, computing the last chunk of a full one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from octavo.engine.config import EngineConfig
from octavo.engine.kernels.dispatch import load_kernels
from octavo.engine.kv.cache import KvCache
from octavo.engine.planner import MemoryPlan, kv_bytes, tail_bytes
from octavo.engine.runner import ModelRunner
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.engine.workspace import RunSizes

if TYPE_CHECKING:
    from octavo.engine.config import ComputeDtype, KvCodec
    from octavo.engine.weights.checkpoint import Quantization


def measure_memory(
    path: Path,
    context: int,
    *,
    hot: int | None = None,
    codec: KvCodec = "bf16",
    page_size: int = 32,
    prefill_chunk: int = 512,
    compute_dtype: ComputeDtype = "auto",
    device: str = "cpu",
    quantization: Quantization = "auto",
) -> MemoryPlan:
    """Bytes that the loaded model's tensors hold, to be compared with `plan_memory`.

    The workspace is the most that torch had allocated at one time for computing the chunk, and what a runner keeps.
    Raises as `open_checkpoint` does.
    """
    checkpoint = open_checkpoint(path, device=device, quantization=quantization)
    spec, run = checkpoint.spec, RunSizes(page_size=page_size)
    is_streaming = hot is not None and hot < context
    pool = kv_bytes(spec, hot if hot is not None and is_streaming else context, codec, page_size)
    config = EngineConfig(
        page_size=page_size,
        prefill_chunk=prefill_chunk,
        kv_bytes=pool + tail_bytes(spec, codec, run, has_lower_tier=is_streaming),
        host_bytes=kv_bytes(spec, context, codec, page_size) if is_streaming else 0,
        kv_codec=codec,
        compute_dtype=compute_dtype,
    )
    kernels = load_kernels(device)
    if compute_dtype != "float32":
        checkpoint.rearrange(kernels.arrange)
    cache = KvCache(spec, config, kernels, "", device)
    cache.pool.slab.zero_()
    dtype = torch.float32 if compute_dtype == "float32" else torch.bfloat16
    runner = ModelRunner(checkpoint, kernels, cache, context, dtype)
    start = max(0, context - prefill_chunk) // page_size * page_size
    token_ids = [0] * context
    pages = cache.open(token_ids, "plan")
    cache.begin_chunk(pages, start // page_size)
    cache.publish(pages, token_ids, start)

    def compute() -> None:
        decoded = runner.logits(torch.zeros(cache.num_tails, spec.hidden_size, device=device))
        cache.begin_step([pages])
        cache.begin_chunk(pages, (context - start) // page_size)
        hidden = runner.prefill(token_ids[start:], start, pages)
        runner.logits(hidden[-1:])
        del decoded  # in the engine, too, these wait for the chunk

    peak = _peak_on_cuda(compute) if torch.device(device).type == "cuda" else peak_on_cpu(compute)
    slots = cache.pool.num_slots * cache.layout.slot_bytes
    host = cache.tiers.host.nbytes
    workspace = peak + runner.rope.nbytes + runner.state_nbytes
    return MemoryPlan(codec, checkpoint.nbytes, slots, cache.nbytes - slots, workspace, host)


@torch.inference_mode()
def peak_on_cpu(work: Callable[[], None]) -> int:
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
