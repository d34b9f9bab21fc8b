"""The decode step in C: all layers in one call, or a layer's parts between which pages are looked up or read.

Python takes part in attention alone, and only where a row selects pages or reads some that are not on the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.attention.decode import DecodeAttention
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.kernels.checks import describe, describe_tails
from octavo.engine.kernels.linear import matrix_words
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.model.decoder import Decoder, Layer

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

_STAGES = 3
"""Of a layer: up to the new keys and values, attention over complete pages, the rest. A constant of the C code."""


class NativeSteps:
    """Steps of `decoder` over the pages of `setup`; `state` is memory for as many rows as a step can have."""

    def __init__(self, decoder: Decoder, setup: AttentionSetup, state: AttentionState, ops: Ops) -> None:
        self._decoder, self._setup, self._state, self._ops = decoder, setup, state, ops
        spec, rope = decoder.spec, setup.rope
        self._layers = torch.tensor([_layer_words(layer) for layer in decoder.layers], dtype=torch.int64)
        sizes = spec.num_layers, spec.hidden_size, spec.num_heads, spec.num_kv_heads, spec.head_dim
        inner = decoder.layers[0].down.shape[1]
        angles = rope.cos.data_ptr(), rope.sin.data_ptr(), len(rope.cos)
        self._model = torch.tensor([self._layers.data_ptr(), *sizes, inner, *angles], dtype=torch.int64)
        self._scratch = torch.empty(0)

    @classmethod
    def of(cls, decoder: Decoder, setup: AttentionSetup, state: AttentionState) -> NativeSteps | None:
        """None where an operation or a matrix is not one of the C kernels'."""
        ops = setup.kernels.native
        every = [
            matrix for layer in decoder.layers for matrix in (*layer.qkv, layer.output, *layer.gate_up, layer.down)
        ]
        if ops is None or any(matrix_words(matrix, None) is None for matrix in every):
            return None
        return cls(decoder, setup, state, ops)

    @property
    def nbytes(self) -> int:
        return self._scratch.nbytes

    def decode(self, token_ids: Tensor, positions: list[int], sequences: list[SequencePages]) -> Tensor:
        """Hidden states as `ModelRunner.decode` returns them."""
        attention = DecodeAttention(self._setup, positions, sequences, self._state)
        residual = self._decoder.embed(token_ids)
        step = self._words(residual, attention)
        num_layers = self._decoder.spec.num_layers
        if attention.together is not None:
            self._run(step, 0, _STAGES * num_layers)
            return residual
        q = self._queries(len(positions))
        for layer in range(num_layers):
            self._run(step, max(0, _STAGES * layer - 1), _STAGES * layer + 1)
            attention.read_pages(layer, q)
        self._run(step, _STAGES * num_layers - 1, _STAGES * num_layers)
        return residual

    def _run(self, step: Tensor, first: int, last: int) -> None:
        eps, scale = self._decoder.spec.rms_eps, self._setup.scale
        self._ops.decode_step(self._model.data_ptr(), step.data_ptr(), eps, scale, first, last)

    def _queries(self, n: int) -> Tensor:
        """Of the layer at hand: the beginning of the scratch memory."""
        heads, dim = self._decoder.spec.num_heads, self._decoder.spec.head_dim
        return self._scratch[: n * heads * dim].view(n, heads, dim)

    def _words(self, residual: Tensor, attention: DecodeAttention) -> Tensor:
        """StepWords of native/decode_step.h."""
        pool, state, table = self._setup.pool, attention.state, attention.together
        n = len(residual)
        needed = self._ops.decode_scratch_bytes(self._model.data_ptr(), n) // self._scratch.itemsize
        if len(self._scratch) < needed:
            self._scratch = torch.empty(needed)
        layout, tails = pool.layout, pool.tails
        tail_layout = describe_tails(layout.num_kv_heads, layout.page_size, layout.head_dim, tails.dtype)
        pages = (0, 0, 0, 0)
        if table is not None:
            pages = table.slots.data_ptr(), table.distances.data_ptr(), table.counts.data_ptr(), table.slots.shape[-1]
        words = (
            *(n, residual.data_ptr(), self._scratch.data_ptr()),
            *(describe(layout), pool.slab.data_ptr(), len(pool.slab)),
            *(tail_layout, layout.hadamard_size if layout.codec.value_bits == 4 else 0),
            *(tails.data_ptr(), len(tails), tails.dtype is torch.bfloat16, layout.page_size),
            *pages,
            *(attention.tail_slots.data_ptr(), attention.offsets.data_ptr(), attention.tail_tokens.data_ptr()),
            *(state.highest.data_ptr(), state.total.data_ptr(), state.values.data_ptr()),
        )
        return torch.tensor(words, dtype=torch.int64)


def _layer_words(layer: Layer) -> list[int]:
    """LayerWords of native/decode_step.h."""
    norms = layer.attention_norm, layer.q_norm, layer.k_norm, layer.mlp_norm
    words = [0 if norm is None else norm.data_ptr() for norm in norms]
    biases = *layer.qkv_bias, None, None, None, None
    matrices = *layer.qkv, layer.output, *layer.gate_up, layer.down
    for matrix, bias in zip(matrices, biases, strict=True):
        words += matrix_words(matrix, bias) or ()
    return words
