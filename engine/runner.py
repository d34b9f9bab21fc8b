"""Runs the decoder over KV pages: tokens and page ids in, hidden states and logits out. No sequences, no policy."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.attention.decode import DecodeAttention
from octavo.engine.attention.prefill import PrefillAttention
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.attention.sparse_prefill import SparsePrefillAttention
from octavo.engine.decode_graphs import DecodeGraphs
from octavo.engine.decode_steps import NativeSteps
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.cache import KvCache
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.model.decoder import Decoder
from octavo.engine.model.rope import attention_scale, rope_table
from octavo.engine.weights.checkpoint import Checkpoint

_FEW_ROWS = 8
"""Up to here a chunk is quicker without expanding the weights for it: measured on two models and two cores."""


class ModelRunner:
    """A decoder, the cache its K and V live in, and the angles of every distance within `num_positions`.

    Decoding computes in float32, a chunk of a prompt multiplies in `prefill_dtype`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        kernels: Kernels,
        cache: KvCache,
        num_positions: int,
        prefill_dtype: torch.dtype,
    ) -> None:
        self._decoder = Decoder(checkpoint, kernels)
        self._page_size = cache.page_size
        self._device = cache.pool.slab.device
        self._prefill_dtype = prefill_dtype
        spec, rows = checkpoint.spec, cache.num_tails
        self.rope = rope_table(spec, max(num_positions, cache.page_size), self._device)
        self._setup = AttentionSetup(cache.tiers, cache.plan, self.rope, kernels, attention_scale(spec))
        self._state = AttentionState.empty(rows, spec.num_heads, spec.head_dim, self._device)
        self.graphs: DecodeGraphs | None = None
        if self._device.type == "cuda" and set(kernels.report.values()) == {"triton"}:
            self.graphs = DecodeGraphs(self._decoder, self._setup, self._state)
        self._steps = NativeSteps.of(self._decoder, self._setup, self._state)

    @property
    def state_nbytes(self) -> int:
        """Bytes of the softmax state of every row."""
        return self._state.highest.nbytes + self._state.total.nbytes + self._state.values.nbytes

    def prefill(self, token_ids: list[int], start: int, pages: SequencePages, question: int | None = None) -> Tensor:
        """Compute consecutive tokens of one sequence from the page boundary `start`, and write their K and V.

        From page number `question` on they read as much as a new token. Returns hidden states, float32
        `[len(token_ids), hidden_size]`.
        """
        if self._are_few(len(token_ids), start):
            return self.decode(token_ids, list(range(start, start + len(token_ids))), [pages] * len(token_ids))
        chunk = self._setup, start, len(token_ids), pages, self._prefill_dtype
        is_dense = self._setup.plan.is_dense(start)
        attend = PrefillAttention(*chunk) if is_dense else SparsePrefillAttention(*chunk, question)
        return self._decoder.forward(self._ids(token_ids), attend, self._prefill_dtype)

    def decode(self, token_ids: list[int], positions: list[int], pages: list[SequencePages]) -> Tensor:
        """Compute one token of each of several sequences, at `positions`, and write its K and V.

        Returns hidden states, float32 `[len(token_ids), hidden_size]`.
        """
        hidden = self.graphs.decode(token_ids, positions, pages) if self.graphs is not None else None
        if hidden is not None:
            return hidden
        if self._steps is not None:
            return self._steps.decode(self._ids(token_ids), positions, pages)
        attend = DecodeAttention(self._setup, positions, pages, self._state)
        return self._decoder.forward(self._ids(token_ids), attend, torch.float32)

    def _are_few(self, num_tokens: int, start: int) -> bool:
        """Whether tokens of one unfinished page are computed sooner row by row, straight from the quantized weights.

        Where pages of queries select together, they are not: results must not depend on how a prompt is cut.
        """
        most = min(_FEW_ROWS, self._page_size - 1, len(self._state.highest))
        return num_tokens <= most and self._setup.plan.is_dense(start)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states `[rows, hidden_size]` -> float32 `[rows, vocab_size]`."""
        return self._decoder.logits(hidden)

    def _ids(self, token_ids: list[int]) -> Tensor:
        return torch.tensor(token_ids, dtype=torch.int64, device=self._device)
