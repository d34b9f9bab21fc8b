"""Choosing, once, the implementation of every operation."""

import importlib
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

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
from octavo.engine.kernels.paged_attention import (
    AttentionState,
    attend_pages_native,
    attend_pages_torch,
    attend_tail_native,
    attend_tail_torch,
)
from octavo.engine.kernels.select import (
    SelectionLimits,
    SelectionScratch,
    select_pages_native,
    select_pages_torch,
)
from octavo.engine.kernels.selfcheck import failure
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import PageLayout
from octavo.engine.weights.matrix import Weight

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

_log = logging.getLogger(__name__)

ISA_VARIABLE = "OCTAVO_NATIVE_ISA"
_REMEDY = "install octavo where a C compiler is found, or use the torch kernels"


class LinearOp(Protocol):
    """See `linear_torch`."""

    def __call__(self, x: Tensor, weights: Sequence[Weight], biases: Sequence[Tensor | None], /) -> list[Tensor]: ...


class RmsNormOp(Protocol):
    """See `rms_norm_torch`."""

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        eps: float,
        residual: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor: ...


class SiluMulOp(Protocol):
    """See `silu_mul_torch`."""

    def __call__(self, gate: Tensor, up: Tensor, dtype: torch.dtype | None = None) -> Tensor: ...


class WriteKvOp(Protocol):
    """See `write_kv_torch`."""

    def __call__(
        self, slab: Tensor, slots: Tensor, offsets: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor
    ) -> None: ...


class EncodePagesOp(Protocol):
    """See `encode_pages_torch`."""

    def __call__(self, kv: Tensor, layout: PageLayout, /) -> Tensor: ...


class GatherPagesOp(Protocol):
    """See `gather_pages_torch`."""

    def __call__(
        self,
        slab: Tensor,
        layout: PageLayout,
        slots: Tensor,
        starts: Tensor,
        cos: Tensor,
        sin: Tensor,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]: ...


class AttendPagesOp(Protocol):
    """See `attend_pages_torch`."""

    def __call__(
        self,
        q: Tensor,
        slab: Tensor,
        layout: PageLayout,
        slots: Tensor,
        distances: Tensor,
        num_pages: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
        state: AttentionState,
        fresh: bool,
    ) -> None: ...


class AttendTailOp(Protocol):
    """See `attend_tail_torch`."""

    def __call__(
        self,
        q: Tensor,
        tails: Tensor,
        layout: PageLayout,
        tail_slots: Tensor,
        tail_tokens: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
        state: AttentionState,
    ) -> Tensor: ...


class PageBoundsOp(Protocol):
    """See `page_bounds_torch`."""

    def __call__(self, encoded: Tensor, pages: PageLayout, layout: BoundsLayout) -> Tensor: ...


class SectionBoundsOp(Protocol):
    """See `section_bounds_torch`."""

    def __call__(self, bounds: Tensor, layout: BoundsLayout, page_ids: Tensor) -> Tensor: ...


class SelectPagesOp(Protocol):
    """See `select_pages_torch`."""

    def __call__(
        self,
        q: Tensor,
        bounds: Tensor,
        sections: Tensor,
        layout: BoundsLayout,
        page_ids: Tensor,
        num_pages: Tensor,
        distances: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
        read: Tensor | None,
        limits: SelectionLimits,
        scratch: SelectionScratch,
    ) -> tuple[Tensor, Tensor]: ...


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
    report: dict[str, str]
    threads: int


def load_kernels(device: str = "cpu", prefer: Literal["auto", "native", "torch"] = "auto") -> Kernels:
    """The fastest kernels for `device` that agree with their references, each checked once here.

    "auto" and "native" take the C kernels on a CPU; where they are missing or wrong, "auto" logs a warning
    and takes torch, and "native" raises EngineError. The variable OCTAVO_NATIVE_ISA (avx512, avx2 or
    portable) replaces the processor's best instruction set; EngineError if the processor lacks it.
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
    }
    report = dict.fromkeys(implementations, "torch")
    ops = None if prefer == "torch" or torch.device(device).type != "cpu" else _native_ops()
    if ops is None:
        if prefer == "native":
            raise EngineError(f"The native kernels cannot run on {device} here; {_REMEDY}.")
        return Kernels(**implementations, report=report, threads=torch.get_num_threads())
    for name, native in _native_implementations(ops).items():
        problem = failure(name, native)
        if problem is None:
            implementations[name], report[name] = native, f"native {ops.isa}"
        elif prefer == "native":
            raise EngineError(f"The native kernel {name} ({ops.isa}) is wrong: {problem}; {_REMEDY}.")
        else:
            _log.warning("the native kernel %s (%s) is not used: %s", name, ops.isa, problem)
    return Kernels(**implementations, report=report, threads=ops.threads)


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
            f"{ISA_VARIABLE}={isa} names no instruction set of this processor; use avx512, avx2 or portable, "
            "or unset it."
        ) from None
    return ops


def set_num_threads(threads: int) -> None:
    """Let the native kernels use `threads` threads, this one included; torch keeps its own number."""
    if threads < 1:
        raise ValueError(f"the number of threads must be at least 1, not {threads}")
    with suppress(ImportError):
        importlib.import_module("octavo.engine.kernels._native").set_threads(threads)
