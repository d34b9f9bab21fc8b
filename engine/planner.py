"""How much memory a model needs at a context length, computed from its shapes alone.

Nothing is loaded: `read_model` reads a header, the rest is arithmetic and works without torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.checkpoint import Quantization

# One tile of a matrix, expanded for a product; the engine bounds it so.
_TILE_BYTES = 32 * 2**20
_GROUP = 32  # values that share a scale and a zero in a KV codec
_GROUP_STATE = 4  # bytes: both in float16
_FLOAT32 = 4


class ModelSizes(Protocol):
    """The sizes of a model that memory depends on; a ModelSpec has them all."""

    @property
    def num_layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...


@dataclass(frozen=True)
class PlainSizes:
    """ModelSizes of a model whose file is not here."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int


@dataclass(frozen=True)
class KvCodec:
    """How K and V are stored: bits a value. Below 16 bits, groups of 32 values share a scale and a zero."""

    name: str
    key_bits: int
    value_bits: int

    def token_bytes(self, head_dim: int) -> int:
        """Bytes of one token's K and V in one KV head of one layer."""
        return _vector_bytes(head_dim, self.key_bits) + _vector_bytes(head_dim, self.value_bits)


CODECS = (KvCodec("bf16", 16, 16), KvCodec("k8v8", 8, 8), KvCodec("k8v4", 8, 4), KvCodec("k4v4", 4, 4))


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a model needs with one KV codec."""

    codec: str
    weights: int
    kv: int
    workspace: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.workspace


def plan_memory(
    sizes: ModelSizes,
    weight_bytes: int,
    context: int,
    *,
    page_size: int = 32,
    prefill_chunk: int = 512,
    compute_bytes: int = 2,
    codecs: Sequence[KvCodec] = CODECS,
) -> list[MemoryPlan]:
    """What one conversation of `context` tokens needs, with each codec.

    compute_bytes: of the type that prefill multiplies in, 2 for bfloat16, 4 for float32.
    """
    workspace = workspace_bytes(sizes, context, prefill_chunk=prefill_chunk, compute_bytes=compute_bytes)
    return [
        MemoryPlan(codec.name, weight_bytes, kv_bytes(sizes, context, codec, page_size), workspace) for codec in codecs
    ]


def kv_bytes(sizes: ModelSizes, context: int, codec: KvCodec, page_size: int = 32) -> int:
    """Bytes of K and V of `context` tokens, in whole pages, over all layers and KV heads."""
    tokens = -(-context // page_size) * page_size
    return sizes.num_layers * sizes.num_kv_heads * codec.token_bytes(sizes.head_dim) * tokens


def workspace_bytes(
    sizes: ModelSizes, context: int, *, prefill_chunk: int = 512, compute_bytes: int = 2, sequences: int = 1
) -> int:
    """The most that the engine holds besides weights and KV pages: the last prefill chunk of a full context.

    That is the angle table, hidden states and activations, one expanded tile of a matrix, and the logits of
    `sequences` rows. It follows the decoder's tensors one by one, as they live on a CPU with native kernels;
    a test compares it with what torch allocates there.
    """
    rows = min(prefill_chunk, context)
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    tile_rows = min(sizes.intermediate_size, _TILE_BYTES // (sizes.hidden_size * compute_bytes))
    # Held through both halves of a layer: three hidden states; q, k and v; what attention returned.
    held = rows * (
        sizes.hidden_size * (2 * _FLOAT32 + compute_bytes) + (queries + 2 * keys) * _FLOAT32 + queries * compute_bytes
    )
    feed_forward = rows * (2 * sizes.intermediate_size * _FLOAT32 + tile_rows * compute_bytes)
    attention = _attention_bytes(rows, context, queries, keys, compute_bytes)
    tile = tile_rows * sizes.hidden_size * compute_bytes
    angles = context * sizes.head_dim * _FLOAT32
    logits = sequences * sizes.vocab_size * _FLOAT32
    return angles + held + max(attention, feed_forward) + tile + logits


def automatic_kv_bytes(sizes: ModelSizes, context: int, available: int, *, page_size: int, workspace: int) -> int:
    """A KV budget in bfloat16 for when nobody named one: the whole context, or what memory sensibly leaves.

    available: bytes free with the weights counted off. A fifth of what is left stays free for other programs;
    one page is the least that can run.
    """
    bf16 = CODECS[0]
    page = kv_bytes(sizes, page_size, bf16, page_size)
    room = (available - workspace) * 4 // 5
    return min(kv_bytes(sizes, context, bf16, page_size), max(room // page, 1) * page)


def read_model(path: Path, *, device: str = "cpu", quantization: Quantization = "auto") -> tuple[ModelSpec, int]:
    """A model's spec, and the bytes its weights will take in memory, from headers alone.

    Raises ModelFileError or UnsupportedModelError, as `open_checkpoint` does.
    """
    return _read_folder(path, device, quantization) if path.is_dir() else _read_gguf(path)


def _vector_bytes(length: int, bits: int) -> int:
    groups = 0 if bits == 16 else -(-length // _GROUP)
    return length * bits // 8 + groups * _GROUP_STATE


def _attention_bytes(rows: int, context: int, queries: int, keys: int, compute_bytes: int) -> int:
    """The larger of two moments: K being rotated, and the chunk's results being merged with the past's."""
    rotated_queries = rows * queries * compute_bytes
    # The pages as gathered, K and V in bfloat16, and K in float32: as read, its rotated halves, these joined.
    rotating = context * keys * (2 * 2 + 3 * _FLOAT32)
    # Both results and their merger in float32; both results and the operands (queries in groups, the chunk's
    # own K and V repeated for each query head) in the compute type; K and V of the whole context.
    merging = rows * queries * (3 * _FLOAT32 + 5 * compute_bytes) + context * keys * 2 * compute_bytes
    return rotated_queries + max(rotating, merging)


def _read_gguf(path: Path) -> tuple[ModelSpec, int]:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.gguf import GGUFFile
    from octavo.engine.weights.layout import check_tensors, expected_tensors

    file = GGUFFile(path)
    spec = ModelSpec.from_gguf(file.metadata, file.tensors, path=path)
    check_tensors(path, spec, {name: info.shape for name, info in file.tensors.items()})
    return spec, sum(
        file.tensors[name].nbytes if len(shape) > 1 else shape[0] * _FLOAT32 for name, shape in expected_tensors(spec)
    )


def _read_folder(path: Path, device: str, quantization: Quantization) -> tuple[ModelSpec, int]:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.layout import check_tensors, expected_tensors, hf_name
    from octavo.engine.weights.safetensors import SafetensorsFolder

    folder = SafetensorsFolder(path)
    spec = ModelSpec.from_hf_config(folder.config, path)
    check_tensors(path, spec, folder.shapes, hf_name)
    total = 0
    for name, shape in expected_tensors(spec):
        if len(shape) == 1:
            total += shape[0] * _FLOAT32
        elif quantization == "none":
            total += folder.tensor(hf_name(name)).nbytes
        else:
            total += _quantized_bytes(name, shape[0], shape[1], device, quantization)
    return spec, total


def _quantized_bytes(name: str, rows: int, cols: int, device: str, quantization: Quantization) -> int:
    """What `quantize_matrix` makes of a matrix."""
    from octavo.engine.weights.formats import Format
    from octavo.engine.weights.quantize import VOCABULARY

    on_cpu = not device.startswith("cuda")
    scheme = ("int8" if on_cpu else "nf4") if quantization == "auto" else quantization
    if name not in VOCABULARY and scheme == "nf4":
        return _nf4_bytes(rows * cols)
    if name not in VOCABULARY and scheme == "int8" and not on_cpu:
        return rows * cols + rows * _FLOAT32
    if cols % Format.Q8_0.block_size:
        return rows * cols * 2
    target = Format.Q4_1 if scheme == "int4" and name not in VOCABULARY else Format.Q8_0
    return rows * target.row_bytes(cols)


def _nf4_bytes(weights: int) -> int:
    """bitsandbytes' NF4: 64 weights share a scale of 8 bits, 256 scales one of 32; two tables, an offset."""
    blocks = math.ceil(weights / 64)
    return math.ceil(weights / 2) + blocks + _FLOAT32 * (math.ceil(blocks / 256) + 16 + 256 + 1)
