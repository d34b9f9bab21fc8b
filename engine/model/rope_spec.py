"""How a model rotates its queries and keys, read from GGUF metadata or a config.json."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.model.fields import Fields

RopeScaling = Literal["none", "linear", "llama3", "yarn", "factors"]

_DEFAULT_THETA = 10_000.0
_HF_COMMON_KEYS = {"rope_theta", "rope_type", "type", "partial_rotary_factor"}
_HF_KEYS = {
    "default": set[str](),
    "linear": {"factor"},
    "llama3": {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
    "yarn": {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor"},
}


@dataclass(frozen=True)
class RopeSpec:
    """Rotary position embedding: its base `theta`, and how the frequencies are scaled.

    - linear: every frequency is divided by `factor` (arXiv 2306.15595).
    - llama3: low frequencies are divided by `factor`, high ones kept, with a ramp between (Llama 3.1).
    - yarn: arXiv 2309.00071. `attention_factor` multiplies cosine and sine; None is the paper's
      0.1 ln(factor) + 1.
    - factors: frequency i is divided by `freq_factors[i]`, head_dim / 2 of them (a GGUF file's
      rope_freqs.weight, which is how Llama 3.1's scaling is stored there).

    original_context: tokens trained on before scaling (llama3, yarn).
    """

    theta: float
    scaling: RopeScaling = "none"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    freq_factors: tuple[float, ...] = ()


def rope_from_gguf(fields: Fields, freq_factors: Sequence[float], head_dim: int) -> RopeSpec:
    """The RopeSpec of GGUF metadata; a factor without a type is linear scaling, as in llama.cpp."""
    source = fields.source
    theta = fields.number("rope.freq_base", _DEFAULT_THETA)
    kind = fields.text("rope.scaling.type", "linear")
    factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1.0))
    if kind not in ("none", "linear", "yarn"):
        raise _unsupported(fields, kind, ("none", "linear", "yarn"))
    unscaled = kind == "none" or factor == 1.0
    if freq_factors:
        if not unscaled:
            raise UnsupportedModelError(f"{source}: rope_freqs.weight with {kind} scaling is not supported")
        if len(freq_factors) != head_dim // 2 or not all(0 < value < math.inf for value in freq_factors):
            raise ModelFileError(f"{source}: rope_freqs.weight must hold {head_dim // 2} positive numbers")
        return RopeSpec(theta, "factors", freq_factors=tuple(freq_factors))
    if unscaled:
        return RopeSpec(theta)
    if kind == "linear":
        return RopeSpec(theta, "linear", factor=factor)
    return _gguf_yarn(fields, theta, factor)


def _gguf_yarn(fields: Fields, theta: float, factor: float) -> RopeSpec:
    for key in ("yarn_ext_factor", "yarn_log_multiplier"):
        if f"rope.scaling.{key}" in fields:
            raise UnsupportedModelError(f"{fields.source}: rope.scaling.{key} is not supported")
    # llama.cpp multiplies these into the paper's factor, where transformers' attention_factor replaces it.
    multiplier = fields.number("rope.scaling.attn_factor", 1.0)
    multiplier *= fields.number("rope.scaling.yarn_attn_factor", 1.0)
    context = fields.positive("context_length")
    return RopeSpec(
        theta,
        "yarn",
        factor=factor,
        original_context=fields.positive("rope.scaling.original_context_length", context),
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=None if multiplier == 1.0 else multiplier * (0.1 * math.log(factor) + 1.0),
    )


def rope_from_hf(fields: Fields, context: int) -> RopeSpec:
    """The RopeSpec of a config.json: `rope_theta` beside `rope_scaling`, or `rope_parameters` holding both.

    context: max_position_embeddings, the original context where none is given (as in transformers).
    """
    scaling = fields.section("rope_parameters")
    if not scaling.keys():
        scaling = fields.section("rope_scaling")
    theta = scaling.number("rope_theta", fields.number("rope_theta", _DEFAULT_THETA))
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if kind not in _HF_KEYS:
        raise _unsupported(fields, kind, tuple(_HF_KEYS))
    if scaling.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0)) != 1.0:
        raise UnsupportedModelError(f"{fields.source}: a partial_rotary_factor other than 1 is not supported")
    unknown = scaling.keys() - _HF_KEYS[kind] - _HF_COMMON_KEYS
    if unknown:
        raise UnsupportedModelError(f"{scaling.source}: {min(unknown)} is not supported for RoPE type {kind}")
    if kind == "default":
        return RopeSpec(theta)
    factor = scaling.number("factor")
    if kind == "linear":
        return RopeSpec(theta, "linear", factor=factor)
    original = scaling.positive("original_max_position_embeddings", context)
    if kind == "llama3":
        return RopeSpec(
            theta,
            "llama3",
            factor=factor,
            original_context=original,
            low_freq_factor=scaling.number("low_freq_factor"),
            high_freq_factor=scaling.number("high_freq_factor"),
        )
    attention_factor = scaling.get("attention_factor")
    return RopeSpec(
        theta,
        "yarn",
        factor=factor,
        original_context=original,
        beta_fast=scaling.number("beta_fast", 32.0),
        beta_slow=scaling.number("beta_slow", 1.0),
        attention_factor=None if attention_factor is None else scaling.number("attention_factor"),
    )


def _unsupported(fields: Fields, kind: str, supported: Sequence[str]) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{fields.source}: the RoPE scaling {kind} is not supported; supported are {', '.join(supported)}"
    )
