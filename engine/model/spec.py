"""What a model is, however its weights are stored: its sizes, and the details that tell families apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.model.fields import Fields
from octavo.engine.model.rope_spec import RopeSpec, rope_from_gguf, rope_from_hf

if TYPE_CHECKING:
    from octavo.engine.weights.gguf import TensorInfo

__all__ = ["GGUF_ARCHITECTURES", "HF_ARCHITECTURES", "ModelSpec", "RopeSpec"]

GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")
HF_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
# What transformers takes when config.json is silent: Mistral 7B v0.1 and Qwen3 were published that way.
_MISTRAL_WINDOW = 4096
_QWEN3_HEAD_DIM = 128
_QWEN_FIRST_WINDOW_LAYER = 28


@dataclass(frozen=True)
class ModelSpec:
    """Shape and options of a decoder-only transformer (RMSNorm, RoPE, grouped-query attention, SwiGLU).

    context_length: tokens the model was trained to attend over. A model with a sliding window in use
    (Mistral 7B v0.1; Qwen2 with use_sliding_window) is capped at that window, where window attention and
    full attention are the same thing; YaRN's extension counts as trained.
    """

    family: str
    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rms_eps: float
    context_length: int
    rope: RopeSpec
    qkv_bias: bool
    qk_norm: bool
    tied_embeddings: bool

    @classmethod
    def from_gguf(
        cls,
        metadata: Mapping[str, Any],
        tensors: Mapping[str, "TensorInfo"],
        *,
        freq_factors: Sequence[float] = (),
        path: Path | str = "GGUF file",
    ) -> "ModelSpec":
        """The spec of a GGUF file with this metadata and these tensors.

        freq_factors: the values of the tensor rope_freqs.weight, where the file has it. path: for messages.
        Raises UnsupportedModelError (architecture, experts, RoPE scaling) or ModelFileError (a key is
        missing or makes no sense).
        """
        arch = Fields(metadata, path).text("general.architecture")
        if arch not in GGUF_ARCHITECTURES:
            raise _unsupported(path, arch, GGUF_ARCHITECTURES)
        fields = Fields(metadata, path, prefix=f"{arch}.")
        if fields.integer("expert_count", 0):
            raise UnsupportedModelError(f"{path} is a mixture of experts (expert_count), which is not supported")
        heads = fields.positive("attention.head_count")
        hidden = fields.positive("embedding_length")
        head_dim = fields.positive("attention.key_length", hidden // heads)
        for key in ("attention.value_length", "rope.dimension_count"):
            if fields.positive(key, head_dim) != head_dim:
                raise UnsupportedModelError(
                    f"{path}: {arch}.{key} is {fields.get(key)}; only {head_dim}, the head size, is supported"
                )
        rope = rope_from_gguf(fields, freq_factors, head_dim)
        context = _extended(fields.positive("context_length"), rope)
        window = fields.integer("attention.sliding_window", 0)
        return cls(
            family=arch,
            name=str(metadata.get("general.name") or Path(path).stem),
            num_layers=fields.positive("block_count"),
            hidden_size=hidden,
            num_heads=heads,
            num_kv_heads=fields.positive("attention.head_count_kv", heads),
            head_dim=head_dim,
            intermediate_size=fields.positive("feed_forward_length"),
            vocab_size=_gguf_vocab_size(fields, metadata, tensors),
            rms_eps=fields.number("attention.layer_norm_rms_epsilon"),
            context_length=min(context, window) if window > 0 else context,
            rope=rope,
            qkv_bias=arch == "qwen2" or "blk.0.attn_q.bias" in tensors,
            qk_norm=arch == "qwen3",
            tied_embeddings="output.weight" not in tensors,
        )._checked(path)

    @classmethod
    def from_hf_config(cls, config: Mapping[str, Any], path: Path) -> "ModelSpec":
        """The spec of a Hugging Face config.json; path: its folder, which also names the model.

        Raises UnsupportedModelError (architecture, quantization, activation, biases, RoPE type) or
        ModelFileError (a key is missing or makes no sense).
        """
        fields = Fields(config, path / "config.json")
        family = _hf_family(config, path)
        heads = fields.positive("num_attention_heads")
        hidden = fields.positive("hidden_size")
        # Null means "as many as heads" everywhere; only Llama's class takes absence to mean the same.
        absent_kv = heads if family == "llama" or "num_key_value_heads" in config else None
        context = fields.positive("max_position_embeddings")
        rope = rope_from_hf(fields, context)
        context = _extended(context, rope)
        window = _hf_window(fields, family)
        return cls(
            family=family,
            name=path.resolve().name,
            num_layers=fields.positive("num_hidden_layers"),
            hidden_size=hidden,
            num_heads=heads,
            num_kv_heads=fields.positive("num_key_value_heads", absent_kv),
            head_dim=fields.positive("head_dim", _QWEN3_HEAD_DIM if family == "qwen3" else hidden // heads),
            intermediate_size=fields.positive("intermediate_size"),
            vocab_size=fields.positive("vocab_size"),
            rms_eps=fields.number("rms_norm_eps", 1e-6),
            context_length=min(context, window) if window else context,
            rope=rope,
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        )._checked(path)

    def _checked(self, path: Path | str) -> "ModelSpec":
        if self.num_heads % self.num_kv_heads:
            raise ModelFileError(f"{path}: {self.num_heads} heads cannot share {self.num_kv_heads} KV heads")
        if self.head_dim % 2:
            raise ModelFileError(f"{path}: the head size {self.head_dim} cannot be rotated, it must be even")
        return self


def _unsupported(path: Path | str, architecture: str, supported: Sequence[str]) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{path}: the architecture {architecture} is not supported; supported are {', '.join(supported)}"
    )


def _extended(context: int, rope: RopeSpec) -> int:
    """YaRN configurations state the context before the extension or after it; the larger is what runs."""
    return max(context, round(rope.original_context * rope.factor)) if rope.scaling == "yarn" else context


def _gguf_vocab_size(fields: Fields, metadata: Mapping[str, Any], tensors: Mapping[str, "TensorInfo"]) -> int:
    tokens = metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and tokens:
        return len(tokens)
    embedding = tensors.get("token_embd.weight")
    return fields.positive("vocab_size", embedding.shape[0] if embedding else None)


def _hf_family(config: Mapping[str, Any], path: Path) -> str:
    """The family of a config, after refusing by name what the decoder does not compute."""
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else "(none named)"
    if architecture not in HF_ARCHITECTURES:
        raise _unsupported(path, str(architecture), tuple(HF_ARCHITECTURES))
    quantization = config.get("quantization_config")
    if quantization:
        method = quantization.get("quant_method") if isinstance(quantization, Mapping) else quantization
        raise UnsupportedModelError(
            f"{path} is already quantized ({method}), which is not supported: "
            "use the folder of the original weights, or a GGUF file"
        )
    for key in ("attention_bias", "mlp_bias"):
        if config.get(key):
            raise UnsupportedModelError(f"{path}: {key} is set in config.json, which is not supported")
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError(f"{path}: the activation {activation} is not supported, only silu is")
    return HF_ARCHITECTURES[architecture]


def _hf_window(fields: Fields, family: str) -> int:
    """The sliding window some layer uses, 0 if none does."""
    if family == "llama":
        return 0
    if family == "mistral":
        return fields.integer("sliding_window", 0 if "sliding_window" in fields else _MISTRAL_WINDOW)
    if not fields.flag("use_sliding_window"):
        return 0
    layer_types = fields.get("layer_types")
    if isinstance(layer_types, list):
        used = "sliding_attention" in layer_types
    else:
        first = fields.integer("max_window_layers", _QWEN_FIRST_WINDOW_LAYER)
        used = first < fields.positive("num_hidden_layers")
    return fields.integer("sliding_window", _MISTRAL_WINDOW) if used else 0
