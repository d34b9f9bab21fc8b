"""What computing takes besides weights and KV pages, followed through the code tensor by tensor.

A test compares it with what torch allocates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from octavo.engine.config import GROUP_PAGES, EngineConfig
from octavo.engine.hardware import multiplies_blocks, usable_cores
from octavo.engine.kv.codec import CODECS, PageLayout

# One tile of a matrix, expanded for a product; the engine bounds it so.
_TILE_BYTES = 32 * 2**20
_FLOAT32 = 4
# Scratch of torch's own kernels, which is not followed: measured, 0 to 2 %.
_SCRATCH = 1.02
# Bytes that torch's kernels hold of a number of K and its V while they decode them, in any codec.
_DECODED_TWICE = 24
# Bytes of a score of attention in plain torch: three float32 at the most.
_SCORES = 12
_BFLOAT16 = 2
# Scratch in which torch expands a tile of a matrix.
_EXPANDING = 10 * 2**20
# Scores and sums of one block of queries over one block of keys, which each thread of torch's attention holds.
_QUERY_BLOCK, _KEY_BLOCK = 256, 512


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
class RunSizes:
    """What memory depends on besides the model. `compute_bytes` are those of the type prefill multiplies in.

    `is_native` is False on a CPU where the native kernels are missing and torch's take their place; `by_blocks` is
    whether they compute a chunk by themselves, where it is in bfloat16.
    """

    page_size: int = EngineConfig.page_size
    prefill_chunk: int = EngineConfig.prefill_chunk
    compute_bytes: int = _BFLOAT16
    max_sequences: int = EngineConfig.max_sequences
    on_cuda: bool = False
    is_native: bool = True
    by_blocks: bool = field(default_factory=multiplies_blocks)
    threads: int = field(default_factory=usable_cores)

    @property
    def with_torch(self) -> bool:
        """Whether the kernels are torch's, which hold more at a time."""
        return self.on_cuda or not self.is_native

    @property
    def with_blocks(self) -> bool:
        return self.by_blocks and self.compute_bytes == _BFLOAT16 and not self.with_torch


_PLAIN = RunSizes()


def workspace_bytes(sizes: ModelSizes, context: int, codec: str = "bf16", run: RunSizes = _PLAIN) -> int:
    """The most that the engine holds on its device besides weights and KV pool, with a context of `context` tokens.

    It does not grow with the context but for the angle table: prefill reads the pages before its chunk in groups of
    a fixed number. The parts follow the code as it runs on a CPU with native kernels, or on CUDA with torch's.
    """
    rows = min(run.prefill_chunk, context)
    angles = max(context, run.page_size) * sizes.head_dim * _FLOAT32
    state = run.max_sequences * sizes.num_heads * (sizes.head_dim + 2) * _FLOAT32
    logits = run.max_sequences * sizes.vocab_size * _FLOAT32
    # Slot and distance of every page of every sequence that decodes.
    tables = run.max_sequences * -(-context // run.page_size) * (sizes.num_layers + 2) * _FLOAT32
    step = _chunk_bytes(sizes, rows, context - rows, codec, run)
    if run.with_torch:
        step = max(step, _decode_bytes(sizes, context, run), _TILE_BYTES + _EXPANDING + rows * sizes.hidden_size * 4)
    return angles + state + logits + tables + int(step * _SCRATCH)


def _chunk_bytes(sizes: ModelSizes, rows: int, past: int, codec: str, run: RunSizes) -> int:
    """A prefill chunk of `rows` tokens after `past` others, in the widest moment of a layer."""
    if run.with_blocks and sizes.head_dim % 32 == 0:
        return _blocks_bytes(sizes, rows, past, codec, run)
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    hidden, inner, narrow = sizes.hidden_size, sizes.intermediate_size, run.compute_bytes
    # Two hidden states and their norm; q, k, v and what attention returned.
    held = hidden * (2 * _FLOAT32 + narrow) + 2 * (queries + keys) * _FLOAT32
    is_lossless = CODECS[codec].is_lossless
    # The chunk's K and V as computed and as encoded, and which of its queries sees which of them in which form.
    encoded = PageLayout(CODECS[codec], sizes.num_kv_heads, run.page_size, sizes.head_dim).slot_bytes // run.page_size
    staging = 2 * keys * _BFLOAT16 + encoded + (0 if is_lossless else 2 * rows * _FLOAT32)
    attention = _attention_bytes(sizes, rows, past, is_lossless, run)
    feed_forward = rows * inner * (2 * _FLOAT32 + (2 * _FLOAT32 if run.with_torch else narrow))
    # bitsandbytes expands a whole matrix, our own kernels a tile at a time.
    tile = hidden * narrow * (inner if run.on_cuda else min(inner, _TILE_BYTES // (hidden * narrow)))
    expanding = _EXPANDING if run.with_torch else 0
    return rows * (held + staging) + max(attention, feed_forward) + tile + expanding


def _blocks_bytes(sizes: ModelSizes, rows: int, past: int, codec: str, run: RunSizes) -> int:
    """The same where the C kernels compute it: no expanded weights, nothing for each pair of a query and a key."""
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    encoded = PageLayout(CODECS[codec], sizes.num_kv_heads, run.page_size, sizes.head_dim).slot_bytes // run.page_size
    # Two hidden states and their norm; q, k, v; the softmax state and what attention returned; K and V as computed and
    # as encoded.
    held = sizes.hidden_size * (2 * _FLOAT32 + _BFLOAT16) + (queries + 2 * keys) * _FLOAT32
    held += queries * (_FLOAT32 + _BFLOAT16) + 2 * sizes.num_heads * _FLOAT32 + 2 * keys * _BFLOAT16 + encoded
    group, own = min(GROUP_PAGES * run.page_size, past), -(-rows // run.page_size) * run.page_size
    # The last group of earlier pages is read together with the chunk itself: gathered, and then arranged.
    gathered = 2 * (group + own * (1 if CODECS[codec].is_lossless else 2)) * keys * _BFLOAT16
    return rows * held + gathered + max(gathered, rows * sizes.intermediate_size * _BFLOAT16)


def _attention_bytes(sizes: ModelSizes, rows: int, past: int, is_lossless: bool, run: RunSizes) -> int:
    """The widest moment of a chunk's attention: over a group of earlier pages, at their merging, or over itself."""
    queries, keys, narrow = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim, run.compute_bytes
    merged = rows * queries * _FLOAT32 if past else 0
    group, own = min(GROUP_PAGES * run.page_size, past), rows if is_lossless else 2 * rows
    # K and V of the group, and as torch's kernel repacks them; its result, and the queries by KV head.
    reading = merged + 4 * group * keys * narrow + 2 * rows * queries * narrow
    merging = 2 * merged + rows * queries * (narrow + _FLOAT32)
    # K and V of the chunk as computed, as encoded, and both together; for each query head, and repacked; the result.
    itself = merged + 2 * (rows if is_lossless else 4 * rows) * keys * narrow + (4 * own + rows) * queries * narrow
    if run.with_torch:
        scoring = 2 * group * queries * narrow + sizes.num_heads * rows * group * _SCORES if run.on_cuda else 0
        reading += max(group * keys * _DECODED_TWICE, scoring)
    if run.on_cuda:
        itself += sizes.num_heads * rows * own * _SCORES
    else:
        block = run.threads * _QUERY_BLOCK * (_KEY_BLOCK + sizes.head_dim + 2) * _FLOAT32
        reading, itself = reading + block, itself + block
    return rows * queries * narrow + max(reading, merging, itself)


def _decode_bytes(sizes: ModelSizes, context: int, run: RunSizes) -> int:
    """One token of every sequence, where torch decodes a group of pages of all of them at once."""
    tokens = run.max_sequences * min(GROUP_PAGES * run.page_size, context)
    return tokens * sizes.num_kv_heads * sizes.head_dim * _DECODED_TWICE
