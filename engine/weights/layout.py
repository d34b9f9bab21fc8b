"""Which tensors a model has: canonical names (those of GGUF), their shapes, and their Hugging Face names."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.model.spec import ModelSpec

_HF_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_HF_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Tables some files carry beside the weights; they hold nothing the spec does not say.
_REDUNDANT = re.compile(r"rope_freqs\.weight|model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


def expected_tensors(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Canonical name and shape of every tensor the model needs; matrices are (outputs, inputs)."""
    hidden, inner = spec.hidden_size, spec.intermediate_size
    queries, keys = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    yield "token_embd.weight", (spec.vocab_size, hidden)
    for index in range(spec.num_layers):
        layer = f"blk.{index}."
        yield layer + "attn_norm.weight", (hidden,)
        for part, rows in (("attn_q", queries), ("attn_k", keys), ("attn_v", keys)):
            yield f"{layer}{part}.weight", (rows, hidden)
            if spec.qkv_bias:
                yield f"{layer}{part}.bias", (rows,)
        if spec.qk_norm:
            yield layer + "attn_q_norm.weight", (spec.head_dim,)
            yield layer + "attn_k_norm.weight", (spec.head_dim,)
        yield layer + "attn_output.weight", (hidden, queries)
        yield layer + "ffn_norm.weight", (hidden,)
        yield layer + "ffn_gate.weight", (inner, hidden)
        yield layer + "ffn_up.weight", (inner, hidden)
        yield layer + "ffn_down.weight", (hidden, inner)
    yield "output_norm.weight", (hidden,)
    if not spec.tied_embeddings:
        yield "output.weight", (spec.vocab_size, hidden)


def hf_name(name: str) -> str:
    """The Hugging Face name of a canonical name."""
    if name in _HF_TOP:
        return _HF_TOP[name]
    _, index, part, kind = name.split(".")
    return f"model.layers.{index}.{_HF_LAYER[part]}.{kind}"


def check_tensors(
    path: Path,
    spec: ModelSpec,
    shapes: Mapping[str, tuple[int, ...]],
    name_in_file: Callable[[str], str] = str,
) -> None:
    """Check a file's tensors against the spec; shapes: name in the file -> shape.

    Raises ModelFileError for a missing tensor or a wrong shape, and UnsupportedModelError for a tensor
    the decoder has no use for: ignoring one would give wrong answers.
    """
    unused = set(shapes)
    for name, shape in expected_tensors(spec):
        stored = name_in_file(name)
        found = shapes.get(stored)
        if found is None:
            raise ModelFileError(f"{path}: the tensor {stored} is missing")
        if found != shape:
            raise ModelFileError(f"{path}: the tensor {stored} has shape {found}, where {shape} is expected")
        unused.discard(stored)
    if spec.tied_embeddings:
        unused.discard(name_in_file("output.weight"))
    unused = {name for name in unused if not _REDUNDANT.fullmatch(name)}
    if unused:
        raise UnsupportedModelError(
            f"{path}: the tensor {min(unused)} is not part of a {spec.family} model and is not supported"
        )


def unpermute_rows(rows: Tensor, num_heads: int) -> Tensor:
    """Undo the row order that GGUF files of architecture llama give attn_q and attn_k.

    rows: [num_heads * head_dim, ...]. The converter interleaves the halves of each head, because
    llama.cpp rotates neighbouring rows there; the engine rotates row i with row i + head_dim / 2.
    """
    halves = rows.reshape(num_heads, -1, 2, *rows.shape[1:])
    return halves.transpose(1, 2).reshape(rows.shape).contiguous()
