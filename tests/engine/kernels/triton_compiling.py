"""Compiles every Triton kernel for a GPU that need not be here: what the interpreter accepts, the compiler may not.

A script: `python triton_compiling.py 90` compiles for compute capability 9.0 and exits with an error where that fails.
"""

import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from octavo.engine.kernels.bounds import PageBounds
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.select import SelectionLimits, SelectionScratch
from octavo.engine.kernels.triton_kernels import IMPLEMENTATIONS
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

SHARED_BYTES = 99 * 1024  # that a program may have on every GPU from compute capability 8.0 on
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.uint8: "*u8", torch.int32: "*i32"}


def compile_launches(capability: int) -> set[str]:
    """From now on launching a kernel compiles it; returns the names of those that were."""
    done: set[str] = set()

    def launch(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        given = dict(zip(self.arg_names, arguments, strict=False))
        given |= {name: options.pop(name) for name in list(options) if name in self.arg_names}
        constants = {p.name: given[p.name] for p in self.params if p.is_constexpr}
        signature = {name: "constexpr" if name in constants else type_of(value) for name, value in given.items()}
        target = GPUTarget("cuda", capability, 32)
        compiled = triton.compile(ASTSource(self, signature, constants), target=target, options=options)
        assert compiled.metadata.shared <= SHARED_BYTES, f"{self.__name__} takes too much shared memory"
        done.add(self.__name__)

    JITFunction.run = launch
    return done


def type_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return TYPES[value.dtype]
    return "i32" if isinstance(value, int) else "fp32"


def launch_all() -> None:
    """Every operation once, and once for each codec and format; whatever comes out is not looked at."""
    ops, numbers, ids = IMPLEMENTATIONS, torch.zeros(2, 256), torch.zeros(2).int()
    ops["rms_norm"](numbers, numbers[0], 1e-5, numbers, torch.bfloat16)
    ops["silu_mul"](numbers, numbers)
    for top_k, top_p in ((0, 1.0), (5, 0.9)):
        ops["sample"](numbers[0], 0.7, top_k, top_p, 0.1, 0.5)
    for kind in Format:
        matrix = BlockMatrix(kind, (8, 256), torch.zeros(8, kind.row_bytes(256), dtype=torch.uint8))
        ops["linear"](numbers, [matrix], [None])
        ops["linear"](torch.zeros(9, 256).bfloat16(), [matrix], [numbers[0, :8]])
    for codec, dim, heads in (("f32", 64, 9), ("bf16", 128, 32), ("k8v8", 80, 4), ("k8v4", 128, 32), ("k4v4", 64, 14)):
        kv_heads = {9: 3, 32: 8, 4: 4, 14: 2}[heads]
        layout, boxes = PageLayout(CODECS[codec], kv_heads, 32, dim), BoundsLayout(kv_heads, 32, dim)
        kv = torch.zeros(2, 2, kv_heads, 32, dim, dtype=torch.float32 if codec == "f32" else torch.bfloat16)
        pages = torch.zeros(2, layout.slot_bytes, dtype=torch.uint8)
        q, angles, state = torch.zeros(2, heads, dim), torch.zeros(2, 64, dim // 2), AttentionState.empty(2, heads, dim)
        ops["write_kv"](kv, ids, ids, *torch.zeros(2, 2, kv_heads, dim), *angles)
        ops["encode_pages"](kv, layout)
        ops["gather_pages"](pages, layout, ids, ids, *angles, torch.bfloat16)
        ops["attend_pages"](q, pages, layout, ids[None], ids[None], ids[:1], *angles, 0.1, state, True)
        ops["attend_tail"](q, kv, layout, ids, ids, *angles, 0.1, state)
        bounds = PageBounds.split(ops["page_bounds"](pages, layout, boxes), boxes)
        table = torch.zeros(40).int()
        sections = ops["section_bounds"](bounds.boxes, boxes, table)
        for distances in (ids[:1], torch.zeros(2, 40).int()):
            limits, scratch = SelectionLimits(1, 8, 0.9), SelectionScratch()
            ops["select_pages"](
                q[:, None], bounds, sections, boxes, table, ids, distances, *angles, 0.1, None, limits, scratch
            )


if __name__ == "__main__":
    compiled = compile_launches(int(sys.argv[1]))
    launch_all()
    print(*sorted(compiled))
