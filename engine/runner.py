"""Runs the decoder over KV pages: tokens and page ids in, hidden states and logits out. No sequences, no policy."""

from __future__ import annotations

import torch
from torch import Tensor

from octavo.engine.attention.attention import DecodeAttention, PrefillAttention
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kv.pages import PageId
from octavo.engine.kv.pools import DevicePool
from octavo.engine.model.decoder import Decoder
from octavo.engine.model.rope import attention_scale, rope_table
from octavo.engine.weights.checkpoint import Checkpoint


class ModelRunner:
    """A decoder, the pool its K and V live in, and the angles of every distance within `num_positions`.

    Decoding computes in float32, a chunk of a prompt multiplies in `prefill_dtype`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        kernels: Kernels,
        pool: DevicePool,
        num_positions: int,
        prefill_dtype: torch.dtype,
    ) -> None:
        self._decoder = Decoder(checkpoint, kernels)
        self._kernels = kernels
        self._pool = pool
        self._device = pool.slab.device
        self._prefill_dtype = prefill_dtype
        self.rope = rope_table(checkpoint.spec, max(num_positions, pool.page_size), self._device)
        self._scale = attention_scale(checkpoint.spec)

    def prefill(self, token_ids: list[int], start: int, page_ids: list[PageId]) -> Tensor:
        """Compute consecutive tokens of one sequence from the page boundary `start`, and write their K and V.

        Returns hidden states, float32 `[len(token_ids), hidden_size]`.
        """
        attend = PrefillAttention(
            self._pool,
            self.rope,
            self._kernels,
            self._scale,
            start,
            len(token_ids),
            page_ids,
            self._prefill_dtype,
        )
        return self._decoder.forward(self._ids(token_ids), attend, self._prefill_dtype)

    def decode(self, token_ids: list[int], positions: list[int], page_ids: list[list[PageId]]) -> Tensor:
        """Compute one token of each of several sequences, at `positions`, and write its K and V.

        Returns hidden states, float32 `[len(token_ids), hidden_size]`.
        """
        attend = DecodeAttention(self._pool, self.rope, self._kernels, self._scale, positions, page_ids)
        return self._decoder.forward(self._ids(token_ids), attend, torch.float32)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states `[rows, hidden_size]` -> float32 `[rows, vocab_size]`."""
        return self._decoder.logits(hidden)

    def _ids(self, token_ids: list[int]) -> Tensor:
        return torch.tensor(token_ids, dtype=torch.int64, device=self._device)
