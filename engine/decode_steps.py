"""The decode step in C: all layers in one call, or a layer's parts between which pages are looked up or read.

Python takes part in attention alone, and only where a row selects pages or reads some that are not on the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from octavo.engine.attention.decode import DecodeAttention, PageTables, Row
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.kernels.bounds import sizes
from octavo.engine.kernels.checks import describe, describe_tails
from octavo.engine.kernels.linear import matrix_words
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kernels.select import selection_numbers
from octavo.engine.kv.pools import Ids
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

    def decode(self, token_ids: Tensor, positions: list[int], sequences: list[SequencePages]) -> Tensor:
        """Hidden states as `ModelRunner.decode` returns them."""
        attention = DecodeAttention(self._setup, positions, sequences, self._state)
        residual = self._decoder.embed(token_ids)
        end, n = _STAGES * self._decoder.spec.num_layers, len(positions)
        if (row := attention.selecting) is not None:
            self._select_and_run(residual, attention, row)
            return residual
        step = self._words(residual, attention, attention.together)
        if attention.together is not None:
            self._run(step, 0, end)
            return residual
        for stage in range(1, end, _STAGES):
            self._run(step, max(0, stage - 2), stage)
            attention.read_pages(stage // _STAGES, self._queries(n))
        self._run(step, end - 1, end)
        return residual

    def _select_and_run(self, residual: Tensor, attention: DecodeAttention, row: Row) -> None:
        """All layers of a row that selects; what a layer selects and is not on the device is loaded here."""
        assert row.slots is not None
        far = _Far(self._setup, row, self._decoder.spec.num_heads, self._ops) if row.num_far else None
        table = PageTables(row.slots, row.distance_table, row.count)
        step = self._words(residual, attention, table, 0 if far is None else far.words.data_ptr())
        stage, end, loaded = 0, _STAGES * self._decoder.spec.num_layers, []
        while (stage := self._run(step, stage, end)) < end:
            assert far is not None
            layer = stage // _STAGES
            attention.read_selected(layer, self._queries(1), far.chosen_by(layer))
            loaded.append(layer)
            stage += 1
        attention.note_read()
        if far is not None:
            row.candidates.end_token(row.due, row.num_far)
            found = np.delete(np.arange(self._decoder.spec.num_layers), loaded)
            attention.note_selected(found, far.chosen[found], far.counts[found])

    def _run(self, step: Tensor, first: int, last: int) -> int:
        """Stages, up to the one that is returned."""
        eps, scale = self._decoder.spec.rms_eps, self._setup.scale
        return self._ops.decode_step(self._model.data_ptr(), step.data_ptr(), eps, scale, first, last)

    def _queries(self, n: int) -> Tensor:
        """Of the layer at hand: the beginning of the scratch memory."""
        heads, dim = self._decoder.spec.num_heads, self._decoder.spec.head_dim
        return self._scratch[: n * heads * dim].view(n, heads, dim)

    def _words(self, residual: Tensor, attention: DecodeAttention, table: PageTables | None, far: int = 0) -> Tensor:
        """StepWords of native/decode_step.h."""
        pool, state = self._setup.pool, attention.state
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
            *(state.highest.data_ptr(), state.total.data_ptr(), state.values.data_ptr(), far),
        )
        return torch.tensor(words, dtype=torch.int64)


class _Far:
    """FarWords of native/decode_step.h for one row, and what they point to."""

    def __init__(self, setup: AttentionSetup, row: Row, heads: int, ops: Ops) -> None:
        bounds, far, limits, pool = setup.tiers.bounds, row.sequence.far, setup.token_limits, setup.pool
        assert bounds is not None
        assert far is not None
        num_ids, shape = len(far.ids), sizes(bounds.layout)
        self.chosen = np.empty((pool.num_layers, limits.cap), dtype=np.int32)
        self.counts = np.empty(pool.num_layers, dtype=np.int32)
        candidates = row.candidates
        self._distances = row.far_distances.astype(np.int32)
        self._numbers = np.array([*selection_numbers(bounds.layout, limits, heads)])
        scratch = bounds.scratch.reserve(ops.selection_bytes(*shape, heads, num_ids, limits.cap))
        boxes, sketches, sections, slots = bounds.boxes, bounds.sketches, far.sections, pool.slots
        words = (
            *shape,
            *(boxes.data_ptr(), boxes.stride(0), sketches.data_ptr(), sketches.stride(0), boxes.shape[1]),
            *(sections.data_ptr(), sections.stride(0)),
            *(far.ids.data_ptr(), num_ids, row.far_count.data_ptr()),
            *(row.far_angles.data_ptr(), row.far_angles.dim() == 1, scratch.data_ptr(), limits.floor, limits.cap),
            *(row.due.ctypes.data, candidates.looked_at.data_ptr(), candidates.weighed.ctypes.data),
            *(slots.ctypes.data, slots.strides[0] // slots.itemsize, self._distances.ctypes.data),
            *(row.window is not None, row.window or 0),
            *(self.chosen.ctypes.data, self.counts.ctypes.data, self._numbers.ctypes.data),
        )
        self.words = torch.tensor(words, dtype=torch.int64)

    def chosen_by(self, layer: int) -> Ids:
        """Indices of the far pages that a layer selected."""
        chosen: Ids = self.chosen[layer, : self.counts[layer]].astype(np.int64)
        return chosen


def _layer_words(layer: Layer) -> list[int]:
    """LayerWords of native/decode_step.h."""
    norms = layer.attention_norm, layer.q_norm, layer.k_norm, layer.mlp_norm
    words = [0 if norm is None else norm.data_ptr() for norm in norms]
    biases = *layer.qkv_bias, None, None, None, None
    matrices = *layer.qkv, layer.output, *layer.gate_up, layer.down
    for matrix, bias in zip(matrices, biases, strict=True):
        words += matrix_words(matrix, bias) or ()
    return words
