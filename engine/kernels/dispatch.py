"""Choosing, once, the implementation of every operation."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from octavo.engine.kernels.activation import silu_mul_torch
from octavo.engine.kernels.attention import decode_attention_torch
from octavo.engine.kernels.kv_write import write_kv_torch
from octavo.engine.kernels.linear import linear_torch
from octavo.engine.kernels.norm import rms_norm_torch
from torch import Tensor

if TYPE_CHECKING:
    from octavo.engine.weights.matrix import Weight


class LinearOp(Protocol):
    """See `linear_torch`."""

    def __call__(
        self, x: Tensor, weights: "Sequence[Weight]", biases: Sequence[Tensor | None], /
    ) -> list[Tensor]: ...


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


class DecodeAttentionOp(Protocol):
    """See `decode_attention_torch`."""

    def __call__(
        self,
        q: Tensor,
        slab: Tensor,
        page_slots: Tensor,
        page_distances: Tensor,
        num_pages: Tensor,
        tail_tokens: Tensor,
        cos: Tensor,
        sin: Tensor,
        scale: float,
    ) -> Tensor: ...


@dataclass(frozen=True)
class Kernels:
    """The operations the decoder calls; `report` says for each which implementation it is."""

    linear: LinearOp
    rms_norm: RmsNormOp
    silu_mul: SiluMulOp
    write_kv: WriteKvOp
    decode_attention: DecodeAttentionOp
    report: dict[str, str]
    threads: int


def load_kernels(device: str = "cpu", prefer: Literal["auto", "native", "torch"] = "auto") -> Kernels:
    """The kernels for `device`."""
    report = dict.fromkeys(("linear", "rms_norm", "silu_mul", "write_kv", "decode_attention"), "torch")
    return Kernels(
        linear_torch,
        rms_norm_torch,
        silu_mul_torch,
        write_kv_torch,
        decode_attention_torch,
        report,
        os.cpu_count() or 1,
    )
