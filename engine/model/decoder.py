"""The decoder-only transformer of the Llama family (Llama, SmolLM, Mistral, Qwen2, Qwen3), written plainly.

The decoder knows nothing of pages or sequences: whoever calls `forward` brings an `Attend`, which takes the
queries, keys and values of the rows at hand, keeps what must be kept, and returns what they attend to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.model.spec import ModelSpec
from octavo.engine.weights.checkpoint import Checkpoint
from octavo.engine.weights.matrix import Weight


class Attend(Protocol):
    """Attention of the rows of one forward pass."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """`q` [rows, heads, head_dim], `k`, `v` [rows, kv_heads, head_dim], float32 before RoPE -> shaped as `q`."""


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """Weights of one layer. Biases and head norms are None where the family has none."""

    attention_norm: Tensor
    qkv: tuple[Weight, Weight, Weight]
    qkv_bias: tuple[Tensor | None, Tensor | None, Tensor | None]
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Weight
    mlp_norm: Tensor
    gate_up: tuple[Weight, Weight]
    down: Weight


class Decoder:
    """Token ids in, hidden states and logits out.

    The residual stream is float32; only the operands of matrix products take the narrower type a caller asks for.
    """

    def __init__(self, checkpoint: Checkpoint, kernels: Kernels) -> None:
        self.spec: ModelSpec = checkpoint.spec
        self._kernels = kernels
        self._embedding = checkpoint.matrices["token_embd.weight"]
        self._head = checkpoint.matrices.get("output.weight", self._embedding)
        self._final_norm = checkpoint.vectors["output_norm.weight"]
        self.layers = [_layer(index, checkpoint.matrices, checkpoint.vectors) for index in range(self.spec.num_layers)]

    def forward(self, token_ids: Tensor, attend: Attend, dtype: torch.dtype) -> Tensor:
        """Hidden states after the last layer, before its norm.

        `token_ids` int64 [rows] -> float32 [rows, hidden_size]; matrices are multiplied in `dtype`.
        """
        spec, kernels = self.spec, self._kernels
        residual = self.embed(token_ids)
        delta: Tensor | None = None
        for index, layer in enumerate(self.layers):
            x = self._norm(residual, delta, layer.attention_norm, dtype)
            q, k, v = kernels.linear(x, layer.qkv, layer.qkv_bias)
            q = q.view(-1, spec.num_heads, spec.head_dim)
            k = k.view(-1, spec.num_kv_heads, spec.head_dim)
            v = v.view(-1, spec.num_kv_heads, spec.head_dim)
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = self._head_norm(q, layer.q_norm), self._head_norm(k, layer.k_norm)
            attended = attend(index, q, k, v).reshape(x.shape[0], -1)
            (delta,) = kernels.linear(attended.to(dtype), (layer.output,), (None,))
            x = self._norm(residual, delta, layer.mlp_norm, dtype)
            # The widest tensor of a layer has no name, so that it does not live on into the next one.
            (delta,) = kernels.linear(kernels.gated(x, *layer.gate_up, dtype), (layer.down,), (None,))
        return residual if delta is None else residual + delta

    def embed(self, token_ids: Tensor) -> Tensor:
        """The residual stream before the first layer: int64 [rows] -> float32 [rows, hidden_size]."""
        return self._embedding.gather_rows(token_ids, torch.float32)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, hidden_size] -> float32 [rows, vocab_size]."""
        x = self._kernels.rms_norm(hidden, self._final_norm, self.spec.rms_eps)
        return self._kernels.linear(x, (self._head,), (None,))[0]

    def _norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """Add `delta` to the residual stream in place, and return its RMSNorm in `dtype`."""
        if delta is None:
            return self._kernels.rms_norm(residual, weight, self.spec.rms_eps, dtype=dtype)
        return self._kernels.rms_norm(delta, weight, self.spec.rms_eps, residual=residual, dtype=dtype)

    def _head_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm over head_dim of `x` [rows, heads, head_dim] (Qwen3)."""
        return self._kernels.rms_norm(x.view(-1, x.shape[-1]), weight, self.spec.rms_eps).view_as(x)


def _layer(index: int, matrices: Mapping[str, Weight], vectors: Mapping[str, Tensor]) -> Layer:
    def matrix(name: str) -> Weight:
        return matrices[f"blk.{index}.{name}.weight"]

    def vector(name: str) -> Tensor | None:
        return vectors.get(f"blk.{index}.{name}")

    return Layer(
        attention_norm=vectors[f"blk.{index}.attn_norm.weight"],
        qkv=(matrix("attn_q"), matrix("attn_k"), matrix("attn_v")),
        qkv_bias=(vector("attn_q.bias"), vector("attn_k.bias"), vector("attn_v.bias")),
        q_norm=vector("attn_q_norm.weight"),
        k_norm=vector("attn_k_norm.weight"),
        output=matrix("attn_output"),
        mlp_norm=vectors[f"blk.{index}.ffn_norm.weight"],
        gate_up=(matrix("ffn_gate"), matrix("ffn_up")),
        down=matrix("ffn_down"),
    )
