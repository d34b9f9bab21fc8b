"""Choosing, once, the implementation of every operation."""

import importlib
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from octavo.engine.errors import EngineError
from octavo.engine.hardware import usable_cores
from octavo.engine.kernels.activation import silu_mul_native, silu_mul_torch
from octavo.engine.kernels.bounds import (
    page_bounds_native,
    page_bounds_torch,
    section_bounds_native,
    section_bounds_torch,
)
from octavo.engine.kernels.encode import encode_pages_native, encode_pages_torch
from octavo.engine.kernels.gather import gather_pages_native, gather_pages_torch
from octavo.engine.kernels.kv_write import write_kv_native, write_kv_torch
from octavo.engine.kernels.linear import NativeLinear, linear_torch
from octavo.engine.kernels.norm import rms_norm_native, rms_norm_torch
from octavo.engine.kernels.operations import (
    AttendPagesOp,
    AttendTailOp,
    EncodePagesOp,
    GatherPagesOp,
    LinearOp,
    PageBoundsOp,
    RmsNormOp,
    SampleOp,
    SectionBoundsOp,
    SelectPagesOp,
    SiluMulOp,
    WriteKvOp,
)
from octavo.engine.kernels.paged_attention import (
    attend_pages_native,
    attend_pages_torch,
    attend_tail_native,
    attend_tail_torch,
)
from octavo.engine.kernels.sampling import sample_native, sample_torch
from octavo.engine.kernels.select import (
    select_pages_native,
    select_pages_torch,
)
from octavo.engine.kernels.selfcheck import blocks_failure, failure, tiles_failure
from octavo.engine.kernels.tiles import Arranger

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops
    from octavo.engine.weights.matrix import Weight

_log = logging.getLogger(__name__)

ISA_VARIABLE = "OCTAVO_NATIVE_ISA"
_REMEDY = "install octavo where a C compiler is found, or use the torch kernels"
_TRITON_REMEDY = "install the package triton and a C compiler, which it needs, or use the torch kernels"


@dataclass(frozen=True)
class Kernels:
    """The operations the decoder calls; `report` says for each which implementation it is."""

    linear: LinearOp
    rms_norm: RmsNormOp
    silu_mul: SiluMulOp
    write_kv: WriteKvOp
    encode_pages: EncodePagesOp
    gather_pages: GatherPagesOp
    attend_pages: AttendPagesOp
    attend_tail: AttendTailOp
    page_bounds: PageBoundsOp
    section_bounds: SectionBoundsOp
    select_pages: SelectPagesOp
    sample: SampleOp
    report: dict[str, str]
    threads: int
    arrange: Callable[["Weight"], "Weight"]
    """A matrix as `linear` multiplies it fastest, with inputs as integers where that is so."""
    native: "Ops | None" = None
    """The C module, where every operation is its own."""

    def gated(self, x: Tensor, gate: "Weight", up: "Weight", dtype: torch.dtype) -> Tensor:
        """silu(x @ gate.T) * (x @ up.T), `dtype` [n, out], of `x` [n, in]; in one product where `linear` has it."""
        if isinstance(self.linear, NativeLinear) and dtype is torch.bfloat16:
            out = self.linear.gated(x, gate, up)
            if out is not None:
                return out
        gated, plain = self.linear(x, (gate, up), (None, None))
        return self.silu_mul(gated, plain, dtype)


Preference = Literal["auto", "native", "triton", "torch"]


def load_kernels(device: str = "cpu", prefer: Preference = "auto") -> Kernels:
    """The fastest kernels for `device` that agree with their references, each checked once here.

    "auto" takes the C kernels on a CPU and Triton's on CUDA; where they are missing or wrong it logs a warning and
    takes torch. "native" and "triton" raise EngineError then; on a CPU "triton" runs in its interpreter, if that was
    asked for (see triton_jit.py). The variable OCTAVO_NATIVE_ISA (amx, avx512, avx2 or portable) replaces the
    processor's best instruction set; EngineError if the processor lacks it.
    """
    implementations: dict[str, Any] = {
        "linear": linear_torch,
        "rms_norm": rms_norm_torch,
        "silu_mul": silu_mul_torch,
        "write_kv": write_kv_torch,
        "encode_pages": encode_pages_torch,
        "gather_pages": gather_pages_torch,
        "attend_pages": attend_pages_torch,
        "attend_tail": attend_tail_torch,
        "page_bounds": page_bounds_torch,
        "section_bounds": section_bounds_torch,
        "select_pages": select_pages_torch,
        "sample": sample_torch,
    }
    report = dict.fromkeys(implementations, "torch")
    found = None if prefer == "torch" else _compiled(torch.device(device), prefer)
    if found is None:
        return Kernels(**implementations, report=report, threads=torch.get_num_threads(), arrange=_leave)
    for name, compiled in found.implementations.items():
        problem = failure(name, compiled, device)
        if problem is None:
            implementations[name], report[name] = compiled, found.label
        elif prefer != "auto":
            raise EngineError(f"The kernel {name} ({found.label}) is wrong: {problem}; {found.remedy}.")
        else:
            _log.warning("the kernel %s (%s) is not used: %s", name, found.label, problem)
    arrange = found.arrange if report["linear"] == found.label else _leave
    if arrange is not _leave and (problem := tiles_failure(arrange, implementations["linear"])) is not None:
        _log.warning("matrices are multiplied as they lie in their file, which is slower: %s", problem)
        arrange = _leave
    native = found.ops if set(report.values()) == {found.label} else None
    return Kernels(**implementations, report=report, threads=found.threads, arrange=arrange, native=native)


def _leave(matrix: "Weight") -> "Weight":
    return matrix


@dataclass(frozen=True)
class _Compiled:
    """Kernels that may take the place of torch's; `remedy` is what to do where one of them fails."""

    implementations: Mapping[str, Any]
    label: str
    remedy: str
    threads: int
    arrange: Callable[["Weight"], "Weight"] = _leave
    ops: "Ops | None" = None


def _compiled(device: torch.device, prefer: Preference) -> _Compiled | None:
    """The kernels for a device; None, after a warning, where they are missing. EngineError if they were asked for."""
    uses_triton = prefer == "triton" or (prefer == "auto" and device.type == "cuda")
    if not uses_triton and device.type != "cpu":
        found = None
    else:
        found = _triton_kernels(device) if uses_triton else _native_kernels()
    if found is None and prefer != "auto":
        name, remedy = ("Triton", _TRITON_REMEDY) if uses_triton else ("native", _REMEDY)
        raise EngineError(f"The {name} kernels cannot run on {device} here; {remedy}.")
    return found


def _native_kernels() -> _Compiled | None:
    ops = _native_ops()
    if ops is None:
        return None
    arrange = Arranger(ops)
    if ops.isa == "amx" and (problem := blocks_failure(ops, arrange)) is not None:
        _log.warning("prompts are read without AMX, which is slower: %s", problem)
        ops = importlib.import_module("octavo.engine.kernels._native").Ops("avx512")
        arrange = Arranger(ops)
    implementations = _native_implementations(ops)
    return _Compiled(implementations, f"native {ops.isa}", _REMEDY, ops.threads, arrange, ops)


def _triton_kernels(device: torch.device) -> _Compiled | None:
    try:
        kernels = importlib.import_module("octavo.engine.kernels.triton_kernels")
    except ImportError as error:
        _log.warning("the Triton kernels are missing (%s), generation will be slow: %s", error, _TRITON_REMEDY)
        return None
    if device.type == "cpu" and not kernels.is_interpreted():
        return None
    return _Compiled(kernels.IMPLEMENTATIONS, kernels.LABEL, _TRITON_REMEDY, torch.get_num_threads())


def _native_implementations(ops: "Ops") -> dict[str, Any]:
    return {
        "linear": NativeLinear(ops),
        "rms_norm": partial(rms_norm_native, ops),
        "silu_mul": partial(silu_mul_native, ops),
        "write_kv": partial(write_kv_native, ops),
        "encode_pages": partial(encode_pages_native, ops),
        "gather_pages": partial(gather_pages_native, ops),
        "attend_pages": partial(attend_pages_native, ops),
        "attend_tail": partial(attend_tail_native, ops),
        "page_bounds": partial(page_bounds_native, ops),
        "section_bounds": partial(section_bounds_native, ops),
        "select_pages": partial(select_pages_native, ops),
        "sample": partial(sample_native, ops),
    }


def _native_ops() -> "Ops | None":
    """The C module's operations for the instruction set asked for; without the module None, and a warning."""
    try:
        native = importlib.import_module("octavo.engine.kernels._native")
    except ImportError as error:
        _log.warning("the native kernels are missing (%s), generation will be slow: %s", error, _REMEDY)
        return None
    if native.threads() == 0:
        native.set_threads(usable_cores())
    isa = os.environ.get(ISA_VARIABLE) or None
    try:
        ops: Ops = native.Ops(isa)
    except ValueError:
        raise EngineError(
            f"{ISA_VARIABLE}={isa} names no instruction set of this processor; use amx, avx512, avx2 or portable, "
            "or unset it."
        ) from None
    return ops


def set_num_threads(threads: int) -> None:
    """Let the native kernels use `threads` threads, this one included; torch keeps its own number."""
    if threads < 1:
        raise ValueError(f"the number of threads must be at least 1, not {threads}")
    with suppress(ImportError):
        importlib.import_module("octavo.engine.kernels._native").set_threads(threads)
