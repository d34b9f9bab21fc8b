"""Models of common shapes with random weights, for measuring where no file can be had. They have no tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from octavo.engine.model.rope_spec import RopeSpec
from octavo.engine.model.spec import ModelSpec
from octavo.engine.weights.checkpoint import Checkpoint
from octavo.engine.weights.formats import Format
from octavo.engine.weights.layout import expected_tensors
from octavo.engine.weights.matrix import BlockMatrix, Weight

# Layers, hidden size, heads, KV heads, head dimension, intermediate size, vocabulary, context, tied embeddings.
_SHAPES: dict[str, tuple[int, int, int, int, int, int, int, int, bool]] = {
    "135m": (30, 576, 9, 3, 64, 1536, 49_152, 8_192, True),
    "0.5b": (24, 896, 14, 2, 64, 4864, 151_936, 32_768, True),
    "1.5b": (28, 1536, 12, 2, 128, 8960, 151_936, 32_768, True),
    "3b": (28, 3072, 24, 8, 128, 8192, 128_256, 131_072, True),
    "8b": (32, 4096, 32, 8, 128, 14_336, 128_256, 131_072, False),
}
"""Of SmolLM2-135M, Qwen2.5-0.5B and -1.5B, Llama-3.2-3B and Llama-3.1-8B."""

RANDOM_MODELS = tuple(_SHAPES)
_BLOCK = 1 << 24
_MOST_BYTE = 24  # of random bytes: every float16 scale among them is small


def random_checkpoint(name: str, device: str = "cpu") -> Checkpoint:
    """A model of one of RANDOM_MODELS, in Q4_K and Q6_K, or Q4_1 and Q8_0 where columns do not allow these."""
    spec = random_spec(name)
    noise = torch.randint(_MOST_BYTE, (_BLOCK,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    matrices: dict[str, Weight] = {}
    vectors: dict[str, Tensor] = {}
    for tensor, shape in expected_tensors(spec):
        if len(shape) == 1:
            vectors[tensor] = torch.ones(shape, device=device)
        else:
            kind = _format(tensor, shape[1])
            matrices[tensor] = BlockMatrix(
                kind, (shape[0], shape[1]), _fill(noise, shape[0], kind.row_bytes(shape[1])).to(device)
            )
    return Checkpoint(Path(f"random-{name}"), spec, cast("Any", None), matrices, vectors)


def random_spec(name: str) -> ModelSpec:
    layers, hidden, heads, kv_heads, head_dim, inner, vocabulary, context, tied = _SHAPES[name]
    return ModelSpec(
        family="llama",
        name=f"random-{name}",
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=inner,
        vocab_size=vocabulary,
        rms_eps=1e-5,
        context_length=context,
        rope=RopeSpec(theta=500_000.0),
        qkv_bias=False,
        qk_norm=False,
        tied_embeddings=tied,
    )


def _format(tensor: str, cols: int) -> Format:
    is_vocabulary = tensor in ("token_embd.weight", "output.weight")
    if cols % Format.Q4_K.block_size:
        return Format.Q8_0 if is_vocabulary else Format.Q4_1
    return Format.Q6_K if is_vocabulary else Format.Q4_K


def _fill(noise: Tensor, rows: int, row_bytes: int) -> Tensor:
    """uint8 [rows, row_bytes] of memory of its own, the same noise over and over."""
    data = torch.empty(rows * row_bytes, dtype=torch.uint8)
    for start in range(0, len(data), len(noise)):
        part = data[start : start + len(noise)]
        part.copy_(noise[: len(part)])
    return data.view(rows, row_bytes)
