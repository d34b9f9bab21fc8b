"""How long the bounds and the selection of pages take, for a model of the shape of SmolLM2-135M.

    python tests/bench/selection_speed.py [THREADS]

Times are of all 30 layers together: the best of several runs, by the wall clock and in processor time of all threads.
Pages are random, so that none can be left out; what branch and bound leaves out of real text, results.md says.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from octavo.engine.kernels.bounds import PageBounds
from octavo.engine.kernels.dispatch import load_kernels, set_num_threads
from octavo.engine.kernels.select import SelectionLimits, SelectionScratch
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout

LAYERS, KV_HEADS, HEADS, DIM, PAGE_SIZE, ANGLES = 30, 3, 9, 64, 32, 8192
LIMITS = SelectionLimits(15, 63, 0.95)
KERNELS = load_kernels()
PAGES, BOUNDS = PageLayout(CODECS["k8v4"], KV_HEADS, PAGE_SIZE, DIM), BoundsLayout(KV_HEADS, PAGE_SIZE, DIM)


def report(name: str, run: Callable[[int], object], repeats: int = 9) -> None:
    times = []
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        for layer in range(LAYERS):
            run(layer)
        times.append((time.perf_counter() - begin, time.process_time() - used))
    wall, cpu = (min(x) * 1000 for x in zip(*times, strict=True))
    print(f"{name:52}{wall:8.2f} ms{cpu:8.2f} ms")


def measure(count: int, generator: torch.Generator) -> None:
    encoded = KERNELS.encode_pages(torch.randn(count, 2, KV_HEADS, PAGE_SIZE, DIM, generator=generator), PAGES)
    ids = torch.arange(count).int()
    bounds = KERNELS.page_bounds(encoded, PAGES, BOUNDS)
    tables = [PageBounds.split(bounds, BOUNDS) for _ in range(LAYERS)]  # so much memory a token reads
    sections = KERNELS.section_bounds(tables[0].boxes, BOUNDS, ids)
    q, read = torch.randn(LAYERS, 16, 1, HEADS, DIM, generator=generator), torch.zeros(16, 1, HEADS)
    angles = torch.rand(ANGLES, DIM // 2, generator=generator) * 6
    cos, sin = angles.cos(), angles.sin()
    scratch = SelectionScratch()

    def select(layer: int, rows: int, distances: torch.Tensor) -> None:
        KERNELS.select_pages(
            q[layer, :rows], tables[layer], sections, BOUNDS, ids, torch.full((rows,), count).int(), distances,
            cos, sin, DIM**-0.5, read[:rows], LIMITS, scratch,
        )  # fmt: skip

    shared = torch.tensor([544]).int()
    own = torch.randint(ANGLES, (1, count), generator=generator).int()
    report(f"{count} pages, a token, one distance", lambda layer: select(layer, 1, shared))
    if count <= 1024:
        report(f"{count} pages, a token, true distances", lambda layer: select(layer, 1, own))
    report(f"{count} pages, 16 pages of queries, one distance", lambda layer: select(layer, 16, shared), 3)
    report(
        f"section bounds of {count} pages", lambda layer: KERNELS.section_bounds(tables[layer].boxes, BOUNDS, ids), 3
    )
    if count == 256:
        report("bounds of 16 pages", lambda _: KERNELS.page_bounds(encoded[:16], PAGES, BOUNDS))


if __name__ == "__main__":
    set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    torch.set_num_threads(1)
    print(f"{KERNELS.report['select_pages']:52}{'wall':>8}   {'processor':>8}")
    for pages in (256, 1024, 2048, 8192):
        measure(pages, torch.Generator().manual_seed(0))
