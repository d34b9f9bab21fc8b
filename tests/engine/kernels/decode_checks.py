"""Whole answers of tiny models, every buffer as large as its contents: C decode steps, and the decoder, to the bit.

For sanitizers, which see an access out of bounds only at the end of an allocation: otherwise weights and pages lie side
by side in large blocks.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from octavo.engine.config import AttentionConfig, EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine
from octavo.engine.kernels import tiles
from octavo.engine.kv import candidates, far_pages, memory
from octavo.engine.model.spec import ModelSpec
from octavo.engine.weights.checkpoint import Checkpoint
from octavo.engine.weights.formats import Format
from octavo.engine.weights.layout import expected_tensors
from octavo.engine.weights.matrix import BlockMatrix, Weight
from octavo.engine.weights.random_weights import random_spec

PLAIN = replace(
    random_spec("135m"), num_layers=2, hidden_size=256, num_heads=6, num_kv_heads=2, head_dim=32, intermediate_size=512,
    vocab_size=97, context_length=256,
)  # fmt: skip
SPECS = (
    PLAIN,
    replace(PLAIN, num_heads=5, num_kv_heads=1, head_dim=40, qkv_bias=True),
    replace(PLAIN, num_heads=2, head_dim=64, qk_norm=True),
)
DENSE = EngineConfig(page_size=8, prefill_chunk=32, context=256, max_sequences=4)
SPARSE = AttentionConfig(dense_limit=64, window=32, floor=16, cap=32)
BLOCKS = EngineConfig(page_size=32, prefill_chunk=64, context=256, max_sequences=4)
CONFIGS = (
    DENSE,
    replace(DENSE, kv_codec="k8v4"),
    replace(DENSE, kv_codec="k4v4", attention=SPARSE),
    replace(DENSE, kv_codec="k8v8", attention=replace(SPARSE, far_positions="one angle"), context=400),
    replace(DENSE, compute_dtype="float32"),
    replace(
        BLOCKS, kv_codec="k8v4", attention=AttentionConfig(dense_limit=64, window=64, floor=32, cap=96), context=512
    ),
)
TILED = [kind for kind in Format if kind.block_size > 1]


def checkpoint(spec: ModelSpec, seed: int) -> Checkpoint:
    """Random weights, each matrix in another format."""
    generator = torch.Generator().manual_seed(seed)
    matrices: dict[str, Weight] = {}
    vectors: dict[str, Tensor] = {}
    for number, (name, shape) in enumerate(expected_tensors(spec)):
        if len(shape) == 1:
            vectors[name] = 1 + torch.randn(shape, generator=generator) / 8
            continue
        kind = TILED[number % len(TILED)]
        if shape[1] % kind.block_size:
            kind = Format.Q8_0 if shape[1] % 32 == 0 else Format.BF16
        # Bytes below 24 make every float16 scale among them small; of a dense format only zeros are sure to be.
        most = 24 if kind.block_size > 1 else 1
        data = torch.randint(most, (shape[0], kind.row_bytes(shape[1])), dtype=torch.uint8, generator=generator)
        matrices[name] = BlockMatrix(kind, (shape[0], shape[1]), data)
    return Checkpoint(Path("random"), spec, cast("Any", None), matrices, vectors)


def hidden_states(engine: Engine, lengths: tuple[int, ...]) -> list[Tensor]:
    """Of every decode step, while prompts of these lengths are answered together."""
    generator = torch.Generator().manual_seed(0)
    found: list[Tensor] = []
    decode = engine._runner.decode

    def listen(*arguments: Any) -> Tensor:
        hidden = decode(*arguments)
        found.append(hidden.clone())
        return hidden

    engine._runner.decode = listen  # type: ignore[method-assign]
    for length in lengths:
        prompt = torch.randint(engine.spec.vocab_size, (length,), generator=generator).tolist()
        engine.submit(prompt, GenerationPolicy(temperature=0.0, max_tokens=12))
    while not engine.is_idle:
        engine.step()
    return found


def main() -> int:
    """The number of models and settings of which a step was not the decoder's."""
    tiles._BLOCK_BYTES = 0
    tiles.huge_zeros = memory.huge_zeros = far_pages.huge_zeros = lambda count: torch.zeros(count, dtype=torch.uint8)
    candidates.MOST_WEIGHED = 8  # so few that layers take turns at weighing all pages
    failed = 0
    for seed, spec in enumerate(SPECS):
        for config in CONFIGS:
            engines = [Engine(checkpoint(spec, seed), config, fingerprint="x") for _ in range(2)]
            assert engines[0]._runner._steps is not None
            engines[1]._runner._steps = None
            for lengths in ((5, 40, 41, 150), (config.context - 20,)):
                got, expected = (hidden_states(engine, lengths) for engine in engines)
                same = len(got) == len(expected) and all(map(torch.equal, got, expected))
                failed += not same
                if not same:
                    print(f"model {seed}, {config}: a step is not the decoder's", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
