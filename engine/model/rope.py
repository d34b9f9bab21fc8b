"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864): frequencies under each scaling, and angle tables.

One convention in the whole engine: the pairs are `(j, j + head_dim / 2)`. Angles are computed in float64, because
`position * frequency` in float32 is off by a visible angle at long distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo.engine.model.spec import ModelSpec, RopeSpec


@dataclass(frozen=True, eq=False)
class RopeTable:
    """`cos` and `sin`: float32 `[num_angles, head_dim / 2]`; row r holds the angles of the distance r."""

    cos: Tensor
    sin: Tensor

    @property
    def nbytes(self) -> int:
        return self.cos.nbytes + self.sin.nbytes


def rope_table(spec: ModelSpec, num_angles: int, device: torch.device | str = "cpu") -> RopeTable:
    """Angles of the distances 0 .. num_angles - 1."""
    distances = torch.arange(num_angles, dtype=torch.float64)
    angles = torch.outer(distances, inverse_frequencies(spec.rope, spec.head_dim))
    return RopeTable(angles.cos().float().to(device), angles.sin().float().to(device))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate `x` [..., head_dim] by `cos`, `sin` [..., head_dim / 2], broadcast over the leading dimensions."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def inverse_frequencies(rope: RopeSpec, head_dim: int) -> Tensor:
    """Radians a token for each rotary pair: float64 `[head_dim / 2]`."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    inverse = rope.theta**-exponents
    if rope.scaling == "linear":
        return inverse / rope.factor
    if rope.scaling == "factors":
        return inverse / torch.tensor(rope.freq_factors, dtype=torch.float64)
    if rope.scaling == "llama3":
        return _llama3(inverse, rope)
    if rope.scaling == "yarn":
        return _yarn(inverse, rope, head_dim)
    return inverse


def attention_scale(spec: ModelSpec) -> float:
    """What q · k is multiplied by. YaRN's temperature is folded in here instead of into both rotations."""
    factor = 1.0
    if spec.rope.scaling == "yarn":
        factor = spec.rope.attention_factor or _yarn_attention_factor(spec.rope.factor)
    return factor**2 / math.sqrt(spec.head_dim)


def _llama3(inverse: Tensor, rope: RopeSpec) -> Tensor:
    """Llama 3.1's scaling: long wavelengths stretched, short ones kept, a smooth passage between them."""
    wavelength = 2 * math.pi / inverse
    longest = rope.original_context / rope.low_freq_factor
    shortest = rope.original_context / rope.high_freq_factor
    smooth = (rope.original_context / wavelength - rope.low_freq_factor) / (
        rope.high_freq_factor - rope.low_freq_factor
    )
    blended = (1 - smooth) * inverse / rope.factor + smooth * inverse
    scaled = torch.where(wavelength > longest, inverse / rope.factor, inverse)
    between = (wavelength <= longest) & (wavelength >= shortest)
    return torch.where(between, blended, scaled)


def _yarn(inverse: Tensor, rope: RopeSpec, head_dim: int) -> Tensor:
    """YaRN (Peng et al. 2023, arXiv:2309.00071), "NTK-by-parts" interpolation."""

    def correction_dim(rotations: float) -> float:
        return head_dim * math.log(rope.original_context / (rotations * 2 * math.pi)) / (2 * math.log(rope.theta))

    low = max(math.floor(correction_dim(rope.beta_fast)), 0)
    high = min(math.ceil(correction_dim(rope.beta_slow)), head_dim - 1)
    pairs = torch.arange(head_dim // 2, dtype=torch.float64)
    ramp = ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
    return inverse / rope.factor * ramp + inverse * (1 - ramp)


def _yarn_attention_factor(factor: float) -> float:
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
