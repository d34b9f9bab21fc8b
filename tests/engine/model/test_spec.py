"""ModelSpec from config.json, as transformers understands it, and from GGUF metadata."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.model.spec import ModelSpec, RopeSpec
from octavo.engine.weights.formats import Format
from octavo.engine.weights.gguf import TensorInfo

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 8192,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 320,
}
QWEN2 = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "num_key_value_heads": 2}
MISTRAL = LLAMA | {"architectures": ["MistralForCausalLM"], "num_key_value_heads": 2}
QWEN3 = LLAMA | {"architectures": ["Qwen3ForCausalLM"], "num_key_value_heads": 2}
FOLDER = Path("some/model")
LLAMA3 = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 2048,
    "rope_type": "llama3",
}
METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}
EMBEDDING = {"token_embd.weight": TensorInfo("token_embd.weight", Format.F32, (320, 64), 0, 81920)}


def from_config(config: dict[str, Any], **changes: Any) -> ModelSpec:
    return ModelSpec.from_hf_config(config | changes, FOLDER)


def from_metadata(**changes: Any) -> ModelSpec:
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return ModelSpec.from_gguf(METADATA | dotted, EMBEDDING, path="model.gguf")


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_what_transformers_saves_is_what_it_reads(make_hf_folder: Callable[..., Path], family: str, tie: bool) -> None:
    from transformers import AutoConfig

    folder = make_hf_folder(family, tie_word_embeddings=tie)
    spec = ModelSpec.from_hf_config(json.loads((folder / "config.json").read_text()), folder)
    reference = AutoConfig.from_pretrained(folder)
    assert spec == ModelSpec(
        family=family,
        name=folder.name,
        num_layers=reference.num_hidden_layers,
        hidden_size=reference.hidden_size,
        num_heads=reference.num_attention_heads,
        num_kv_heads=reference.num_key_value_heads,
        head_dim=16,
        intermediate_size=reference.intermediate_size,
        vocab_size=reference.vocab_size,
        rms_eps=reference.rms_norm_eps,
        context_length=reference.max_position_embeddings,
        rope=RopeSpec(10_000.0),
        qkv_bias=family == "qwen2",
        qk_norm=family == "qwen3",
        tied_embeddings=tie,
    )


def test_defaults_are_those_of_transformers() -> None:
    assert from_config(LLAMA).num_kv_heads == 4
    assert from_config(LLAMA).rms_eps == 1e-6
    assert from_config(LLAMA).rope == RopeSpec(10_000.0)
    assert not from_config(LLAMA).tied_embeddings
    assert from_config(LLAMA, head_dim=None).head_dim == 16
    assert from_config(MISTRAL, num_key_value_heads=None).num_kv_heads == 4
    assert from_config(QWEN3).head_dim == 128
    with pytest.raises(ModelFileError, match="num_key_value_heads is missing"):
        from_config({key: value for key, value in MISTRAL.items() if key != "num_key_value_heads"})


@pytest.mark.parametrize(
    ("config", "context"),
    [
        (MISTRAL, 4096),
        (MISTRAL | {"sliding_window": None}, 8192),
        (MISTRAL | {"sliding_window": 1024}, 1024),
        (MISTRAL | {"sliding_window": 32_768}, 8192),
        (QWEN2 | {"sliding_window": 1024}, 8192),
        (QWEN2 | {"sliding_window": 1024, "use_sliding_window": True, "max_window_layers": 1}, 1024),
        (QWEN2 | {"sliding_window": 1024, "use_sliding_window": True, "max_window_layers": 2}, 8192),
        (QWEN2 | {"sliding_window": 1024, "use_sliding_window": True}, 8192),
        (
            QWEN3 | {"sliding_window": 512, "use_sliding_window": True, "layer_types": ["sliding_attention"]},
            512,
        ),
        (LLAMA | {"sliding_window": 1024}, 8192),
    ],
)
def test_a_window_in_use_caps_the_context(config: dict[str, Any], context: int) -> None:
    assert ModelSpec.from_hf_config(config, FOLDER).context_length == context


@pytest.mark.parametrize("old", [True, False])
def test_rope_scaling_is_read_in_both_spellings(old: bool) -> None:
    def rope(scaling: dict[str, Any]) -> RopeSpec:
        if old:
            scaling = {"type" if key == "rope_type" else key: value for key, value in scaling.items()}
            return from_config(LLAMA, rope_theta=5e5, rope_scaling=scaling).rope
        return from_config(LLAMA, rope_parameters={"rope_theta": 5e5} | scaling).rope

    assert rope({"rope_type": "default"}) == RopeSpec(5e5)
    assert rope({"rope_type": "linear", "factor": 2}) == RopeSpec(5e5, "linear", factor=2.0)
    assert rope(LLAMA3) == RopeSpec(5e5, "llama3", factor=32.0, original_context=2048)
    assert rope({"rope_type": "yarn", "factor": 4.0}) == RopeSpec(5e5, "yarn", factor=4.0, original_context=8192)
    full = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5}
    assert rope(full | {"original_max_position_embeddings": 1024}) == RopeSpec(
        5e5, "yarn", factor=4.0, original_context=1024, beta_fast=16.0, beta_slow=2.0, attention_factor=1.5
    )


def test_yarn_extends_the_context() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    assert from_config(QWEN2, rope_scaling=yarn).context_length == 32_768
    assert from_config(QWEN2, rope_scaling=yarn, max_position_embeddings=40_000).context_length == 40_000
    scaled = from_metadata(llama__rope__scaling__type="yarn", llama__rope__scaling__factor=4.0)
    assert scaled.context_length == 16_384


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"architectures": ["MixtralForCausalLM"]},
            "MixtralForCausalLM is not supported; supported are LlamaFor",
        ),
        ({"architectures": []}, r"architecture \(none named\) is not supported"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"is already quantized \(gptq\)"),
        ({"attention_bias": True}, "attention_bias is set"),
        ({"mlp_bias": True}, "mlp_bias is set"),
        ({"hidden_act": "gelu"}, "the activation gelu is not supported"),
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "RoPE scaling dynamic is not supported; supported are",
        ),
        (
            {"rope_scaling": LLAMA3 | {"rope_type": "yarn"}},
            "high_freq_factor is not supported for RoPE type yarn",
        ),
        ({"partial_rotary_factor": 0.5}, "a partial_rotary_factor other than 1"),
    ],
)
def test_what_the_decoder_does_not_compute_is_refused_by_name(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnsupportedModelError, match=sentence):
        from_config(LLAMA, **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size is '64', not a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is '0', not a positive whole number"),
        ({"vocab_size": True}, "vocab_size is 'True', not a whole number"),
        ({"rms_norm_eps": 0}, "rms_norm_eps is '0', not a positive number"),
        ({"rope_scaling": [1]}, "rope_scaling is '.1.', not an object"),
        ({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling: factor is missing"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 KV heads"),
        ({"head_dim": 15}, "the head size 15 cannot be rotated"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelFileError, match=sentence) as caught:
        from_config(LLAMA, **changes)
    assert str(FOLDER) in str(caught.value)


def test_gguf_metadata() -> None:
    spec = from_metadata(general__name="Tiny", tokenizer__ggml__tokens=["a"] * 300)
    assert spec == ModelSpec(
        family="llama",
        name="Tiny",
        num_layers=2,
        hidden_size=64,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        intermediate_size=96,
        vocab_size=300,
        rms_eps=1e-5,
        context_length=4096,
        rope=RopeSpec(10_000.0),
        qkv_bias=False,
        qk_norm=False,
        tied_embeddings=True,
    )
    assert from_metadata().vocab_size == 320
    assert from_metadata().name == "model"
    assert from_metadata(llama__attention__sliding_window=1024).context_length == 1024


def test_gguf_rope_scaling_is_read_as_llama_cpp_does() -> None:
    """A factor without a type is linear, and YaRN's attention factors multiply the paper's."""
    assert from_metadata(llama__rope__scale_linear=2.0).rope == RopeSpec(10_000.0, "linear", factor=2.0)
    none = from_metadata(llama__rope__scaling__type="none", llama__rope__scaling__factor=2.0)
    assert none.rope == RopeSpec(10_000.0)
    yarn = {"llama__rope__scaling__type": "yarn", "llama__rope__scaling__factor": 4.0}
    plain = RopeSpec(10_000.0, "yarn", factor=4.0, original_context=4096)
    assert from_metadata(**yarn).rope == plain
    scaled = from_metadata(**yarn, llama__rope__scaling__yarn_attn_factor=0.5).rope
    assert scaled.attention_factor == pytest.approx(0.5 * (0.1 * 1.3862943611198906 + 1))
